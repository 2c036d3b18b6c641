# SPDX-License-Identifier: MIT
# For bash and zsh: a checkpoint before a git command that can overwrite or delete files.
#
# `git ckpt install --wrapper` writes this file with the path of the guard, and prints the line
# that makes a shell read it. If the guard exits with status 4, there is no checkpoint although
# `on_error = block` requires one, and the command is not run.

function git {
    if [ -x '@GUARD@' ]; then
        '@GUARD@' wrapper "$@" || [ $? -ne 4 ] || return 1
    fi
    command git "$@"
}
