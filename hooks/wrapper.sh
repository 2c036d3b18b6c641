# SPDX-License-Identifier: MIT
# For bash and zsh: a checkpoint before a git command that can overwrite or delete files.
#
# `git ckpt install --wrapper` writes this file with the path of the guard in it, and says which
# line reads it when a shell starts. Status 1 of the guard means that the command is not to be
# run: there is no checkpoint, and `on_error = block` asks for one.

function git {
    if [ -x '@GUARD@' ]; then
        '@GUARD@' wrapper "$@" || [ $? -ne 1 ] || return 1
    fi
    command git "$@"
}
