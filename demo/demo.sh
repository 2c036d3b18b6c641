#!/bin/sh
# SPDX-License-Identifier: MIT
# ckpt at work: a scratch repository is saved, broken, brought back, and broken again.
#
#     sh demo/demo.sh [FOLDER-WITH-GIT-CKPT]
#
# Every command is shown as a person would type it, then run for real. After each turn
# the bytes, modes and links of all files, and all that git knows of them, are compared
# with what they were. Exit code 1 if anything differs. Nothing outside a temporary
# folder is touched, nor are the settings of the user's git read.
set -eu

if [ $# -gt 0 ]; then
    PATH=$(cd "$1" && pwd):$PATH
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

unset $(env | sed -n -e 's/^\(GIT_[A-Z0-9_]*\)=.*/\1/p' -e 's/^\(CKPT_[A-Z0-9_]*\)=.*/\1/p') nothing
export PATH HOME="$scratch/home" XDG_CONFIG_HOME="$scratch/home/.config" GIT_CONFIG_NOSYSTEM=1
export GIT_PAGER=cat
mkdir -p "$HOME" "$scratch/project"
git config --global user.name 'Ann Author'
git config --global user.email 'ann@example.org'
git config --global init.defaultBranch main
git config --global advice.detachedHead false

bold='' dim='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
    green=$(printf '\033[32m') red=$(printf '\033[31m')
fi

# say LINE...
say() {
    echo
    printf "$dim# %s$plain\n" "$@"
}

# run COMMAND...: each is shown, then done
run() {
    for command; do
        printf '%s$%s %s%s%s\n' "$green" "$plain" "$bold" "$command" "$plain"
        eval "$command" || fail "this command failed: $command"
    done
}

fail() {
    printf '\n%sFAILED: %s%s\n' "$red" "$*" "$plain" >&2
    exit 1
}

checksum() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

# Every file with its mode, its checksum or link target, then what git says of it all
state() {
    find . -path ./.git -prune -o ! -path . -print | LC_ALL=C sort | while IFS= read -r path; do
        mode=$(ls -ld "$path" | cut -c 1-10)
        if [ -L "$path" ]; then
            echo "$mode $path -> $(readlink "$path")"
        elif [ -f "$path" ]; then
            echo "$mode $path $(checksum <"$path")"
        else
            echo "$mode $path/"
        fi
    done
    git status --porcelain=v2 --branch
    git ls-files --stage
}

remember() { state >"$scratch/$1"; }

# same NAME WORDS: the state must be the one remembered under NAME
same() {
    state >"$scratch/now"
    if ! diff -u "$scratch/$1" "$scratch/now"; then
        fail "the state is not as it was (- before, + now)"
    fi
    ok "$2"
}

ok() { printf '%sok%s %s\n' "$green" "$plain" "$1"; }

cd "$scratch/project"
command -v git-ckpt >/dev/null || fail 'git-ckpt is not on PATH'

say 'A small project with a commit.'
run 'git init -q'
mkdir -p src docs
printf 'def total(items):\n    return sum(items)\n' >src/app.py
printf 'from app import total\n\nassert total([1, 2]) == 3\n' >src/test_app.py
printf '# Adder\n\nAdds things up.\n' >README.md
printf 'How to add.\n' >docs/guide.md
head -c 3000 /dev/urandom >docs/picture.png
printf '*.log\n' >.gitignore
run 'git add .' \
    'git commit -q -m "first version"' \
    'git ls-files'

say 'An afternoon of work, none of it committed: a file edited, staged and edited again,' \
    'a script that can be run, a link, a note that git does not know, a deletion.'
run "echo '# checked by hand' >> src/app.py" \
    'git add src/app.py' \
    "echo '# to do: floats' >> src/app.py" \
    "printf '#!/bin/sh\nexec python3 src/test_app.py\n' > check && chmod +x check" \
    'ln -s src/app.py main' \
    "echo 'ask Kim about rounding' > notes.txt" \
    'rm docs/guide.md' \
    'git status --short'

say 'Save it all. Nothing that git or you can see changes.'
remember before
run 'git ckpt save before-refactor -m "all green, before the big rewrite"'
same before 'saving changed no file, no mode, nothing staged'
echo
run 'git ckpt list'

say 'Now break everything.'
run "echo 'def total(items): return 0' > src/app.py" \
    "echo 'class Adder: pass' > src/adder.py && git add src/adder.py" \
    'git reset --hard' \
    'git clean -fd' \
    'rm -rf docs' \
    "echo 'where is my work?' > help.txt" \
    'git status --short'

say 'What is gone? And what would going back do?'
remember broken
run 'git ckpt diff --stat latest'
echo
run 'git ckpt rollback --dry-run latest'

say 'Go back.'
run 'git ckpt rollback latest'
same before 'every byte, mode and link is as before, and so is git status'
echo
run 'git status --short'

say 'Was the broken state of any use? A rollback can be undone.'
run 'git ckpt undo'
same broken 'the broken state is back, just as exactly'

say 'It was not. Undo the undo.'
run 'git ckpt undo'
same before 'and the work is back again'

say 'Checkpoints are commits in the same repository, and plain git can read them.'
run "git for-each-ref --format='%(refname)  %(subject)' refs/checkpoints" \
    'git fsck --strict --no-dangling --no-progress'
ok 'git finds nothing wrong with the repository'

files=$(find . -path ./.git -prune -o ! -type d -print | wc -l | tr -d ' ')
printf '\n%sAll %s files are equal, byte for byte, to those before the damage.%s\n' \
    "$bold$green" "$files" "$plain"
