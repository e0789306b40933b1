# SPDX-License-Identifier: BSD-3-Clause
# Completion of `cellspan` for fish. What there is to offer, the command itself knows: it is asked.
function __cellspan_offers
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] --complete $words[2..-1] 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path (commandline -ct)
            case ':folders'
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c cellspan -f -a '(__cellspan_offers)'
