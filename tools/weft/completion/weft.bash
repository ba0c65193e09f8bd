# Completion of the command weft for bash.

_weft() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "serve version help" -- "$word")
        return
    fi
    [ "${COMP_WORDS[1]}" = serve ] || return 0
    case $before in
    --io) mapfile -t COMPREPLY < <(compgen -W "epoll uring" -- "$word") ;;
    --addr) mapfile -t COMPREPLY < <(compgen -W "127.0.0.1 0.0.0.0 ::1 ::" -- "$word") ;;
    --log) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    --port | --workers | --grace) ;;
    *)
        case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "--port --addr --workers --io --log --status --list --hidden --grace
            --help" -- "$word") ;;
        *) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
        esac
        ;;
    esac
}
complete -o filenames -F _weft weft
