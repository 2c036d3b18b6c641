# SPDX-License-Identifier: MIT
# For fish: a checkpoint before a git command that can overwrite or delete files.
#
# `git ckpt install --wrapper` writes this file with the path of the guard, and prints the line
# that makes a shell read it. If the guard exits with status 4, there is no checkpoint although
# `on_error = block` requires one, and the command is not run.

function git --wraps git --description 'git, with a checkpoint first'
    if test -x '@GUARD@'
        '@GUARD@' wrapper $argv
        test $status -ne 4; or return 1
    end
    command git $argv
end
