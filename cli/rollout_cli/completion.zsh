#compdef rollout
_rollout() {
    local line
    local -a found
    while IFS= read -r line; do
        if [[ $line == *' '* ]]; then
            found+=("${line%% *}:${${line#* }//\\/\\\\}")
        elif [[ -n $line ]]; then
            found+=("$line")
        fi
    done < <(_ROLLOUT_COMPLETE=complete_zsh COLUMNS=$COLUMNS "${words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe -V rollout found
    else
        compset -P '--*='
        _files
    fi
}
compdef _rollout rollout
