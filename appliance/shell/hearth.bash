# bash completion of hearth
#   this shell:  source <(hearth completion bash)
#   every shell: hearth completion bash > ~/.local/share/bash-completion/completions/hearth

_hearth() {
    local answer last word
    COMPREPLY=()
    answer=$("${COMP_WORDS[0]/#\~/$HOME}" __complete --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null) || return 0
    while IFS=$'\t' read -r word _; do
        case $word in
        :none | :files | :dirs) last=$word ;;
        '') ;;
        *) COMPREPLY+=("$(printf '%q' "$word")") ;;
        esac
    done <<<"$answer"
    if ((${#COMPREPLY[@]} == 0)); then
        case $last in
        :files) compopt -o default 2>/dev/null ;;
        :dirs) compopt -o dirnames 2>/dev/null ;;
        esac
    fi
    return 0
}
complete -F _hearth hearth
