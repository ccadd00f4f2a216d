#compdef hearth
# zsh completion of hearth
#   this shell:  source <(hearth completion zsh)
#   every shell: hearth completion zsh > "${fpath[1]}/_hearth"

_hearth() {
    local answer line word about last
    local -a found
    answer=$("${words[1]/#\~/$HOME}" __complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null) || return 1
    for line in "${(@f)answer}"; do
        case $line in
        :none|:files|:dirs) last=$line ;;
        '') ;;
        *)
            word=${line%%$'\t'*}
            about=${line#*$'\t'}
            found+=("${word//:/\\:}:$about")
            ;;
        esac
    done
    if (( $#found )); then
        _describe -t hearth hearth found
        return
    fi
    case $last in
    :files) _files ;;
    :dirs) _files -/ ;;
    esac
}

if [[ ${funcstack[1]} == _hearth ]]; then
    _hearth "$@"
else
    compdef _hearth hearth
fi
