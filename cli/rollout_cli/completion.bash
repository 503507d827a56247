_rollout_completion() {
    local line
    local -a found=()
    while IFS= read -r line; do
        found+=("$line")
    done < <(_ROLLOUT_COMPLETE=complete_bash COLUMNS=${COLUMNS:-80} "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # What a value means is shown beside it while there is a choice, but never inserted.
    if [[ ${#found[@]} -eq 1 || ${COMP_TYPE:-9} == 37 || ${COMP_TYPE:-9} == 42 ]]; then
        found=("${found[@]%% *}")
    fi
    COMPREPLY=("${found[@]}")
}
complete -o default -o nosort -F _rollout_completion rollout
