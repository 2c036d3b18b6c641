# SPDX-License-Identifier: MIT
# For fish: a checkpoint before a git command that can overwrite or delete files.
#
# `git ckpt install --wrapper` writes this file with the path of the guard in it, and says which
# line reads it when a shell starts. Status 1 of the guard means that the command is not to be
# run: there is no checkpoint, and `on_error = block` asks for one.

function git --wraps git --description 'git, with a checkpoint first'
    if test -x '@GUARD@'
        '@GUARD@' wrapper $argv
        test $status -ne 1; or return 1
    end
    command git $argv
end
