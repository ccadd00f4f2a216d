# fish completion of hearth
#   this shell:  hearth completion fish | source
#   every shell: hearth completion fish > ~/.config/fish/completions/hearth.fish

function __hearth_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string unescape)
    set -l answer ($words[1] __complete -- $words[2..-1] "$current" 2>/dev/null)
    or return
    set -l found
    set -l last
    for line in $answer
        switch $line
            case ':none' ':files' ':dirs'
                set last $line
            case ''
            case '*'
                set found $found $line
        end
    end
    if test (count $found) -gt 0
        printf '%s\n' $found
        return
    end
    switch "$last"
        case ':files'
            __fish_complete_path "$current"
        case ':dirs'
            __fish_complete_directories "$current" ''
    end
end

complete -c hearth -f -a '(__hearth_complete)'
