function __rollout_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -lx _ROLLOUT_COMPLETE complete_fish
    set -g __rollout_found (rollout $words (commandline -ct) 2>/dev/null | string replace ' ' \t)
    set -q __rollout_found[1]
end
# Where nothing is found, fish completes file names.
complete -c rollout -n __rollout_complete -f -k -a '$__rollout_found'
