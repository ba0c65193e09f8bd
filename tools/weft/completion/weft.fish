# Completion of the command weft for fish.

complete -c weft -f
complete -c weft -n __fish_use_subcommand -a serve -d 'Serve the files of a folder'
complete -c weft -n __fish_use_subcommand -a version -d 'Print the version'
complete -c weft -n __fish_use_subcommand -a help -d 'Print a short help'

set -l serving '__fish_seen_subcommand_from serve'
complete -c weft -n $serving -a '(__fish_complete_directories)'
complete -c weft -n $serving -l port -x -d 'The port; 0: any free one'
complete -c weft -n $serving -l addr -x -a '127.0.0.1 0.0.0.0 ::1 ::' -d 'The address'
complete -c weft -n $serving -l workers -x -d 'Threads that run fibers'
complete -c weft -n $serving -l io -x -a 'epoll uring' -d 'The driver of waits'
complete -c weft -n $serving -l log -r -F -d 'Add a line for each request to a file'
complete -c weft -n $serving -l status -d 'Show the live state at /_weft'
complete -c weft -n $serving -l list -d 'List folders that have no index.html'
complete -c weft -n $serving -l hidden -d 'Serve names that begin with a dot'
complete -c weft -n $serving -l grace -x -d 'How long requests may go on after a signal'
complete -c weft -n $serving -l help -d 'Print the options'
