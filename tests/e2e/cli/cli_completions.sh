#!/bin/bash
# Every command and option that --help names is completed by bash, zsh and fish, and so are values that are one of a few.
. "$(dirname "$0")/../lib/command.bash"
for shell in bash zsh fish; do
    "$V" completions $shell >"$D/$shell" || no "completions $shell"
    [ ! -e "$BUILD/completions/$shell" ] || cmp -s "$D/$shell" "$BUILD/completions/$shell" || no "the build's completions for $shell are old"
done
"$V" completions tcsh 2>/dev/null && no "completions of a shell that it does not know"
# shellcheck disable=SC1091
. "$D/bash" || no "bash can't read its completions"
complete_words() { # WORD...: what bash offers for the last one
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _vramscope 2>/dev/null
    printf '%s\n' "${COMPREPLY[@]}"
}
offers() { # WANTED WORD...
    local wanted=$1
    shift
    complete_words "$@" | grep -qx -- "$wanted" || no "bash: $*: no $wanted"
}
commands=$("$V" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\)  .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 9 ] || no "commands: $commands"
count=0
for command in $commands; do
    offers "$command" vramscope ''
    grep -q "^    '$command:" "$D/zsh" || no "zsh lacks $command"
    grep -q -- "-a $command " "$D/fish" || no "fish lacks $command"
    "$V" "$command" --help | sed -n 's/^ \{2,6\}\(-., \)\?--\([a-z-]*\)\(=\?\).*/\2 \3/p' >"$D/options"
    while read -r option equals; do
        count=$((count + 1))
        offers "--$option$equals" vramscope "$command" --
        [ "$option" = help ] || sed -n "/^  ($command) /,/;;/p" "$D/zsh" | grep -q -- "--${option}[]={}[]" || no "zsh: $command lacks --$option"
        grep -q -- "from $command' -l $option " "$D/fish" || no "fish: $command lacks --$option"
    done <"$D/options"
done
[ $count -gt 60 ] || no "only $count options were looked at"
offers pdf vramscope plot --format = p
offers phase vramscope plot --by ph
offers largest-oom vramscope peak --at = l
offers zsh vramscope completions ''
touch "$D/run.db"
offers "$D/run.db" vramscope report "$D/ru"
offers "$D/run.db" vramscope run -o "$D/ru"
[ -z "$(complete_words vramscope peak --top 1)" ] || no "a number is completed"
! command -v zsh >/dev/null || zsh -n "$D/zsh" || no "zsh can't read its completions"
! command -v fish >/dev/null || fish -n "$D/fish" || no "fish can't read its completions"
[ $failures = 0 ] && echo "$count options are completed" || exit 1
