# shellcheck shell=bash
# bash completion for ublkctl. What can stand where only ublkctl knows: see ublkctl --complete in ctl-complete.c.
_ublkctl() {
    local line=${COMP_LINE:0:COMP_POINT} word candidate prefix words=()
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    COMPREPLY=()
    # A file, of a hook or behind NAME=; bash goes on from the last "=" or ":".
    case $word in
        */* | [~.]*) mapfile -t COMPREPLY < <(compgen -f -- "${word##*=}"); compopt -o filenames; return ;;
    esac
    prefix=${word%"${word##*[=:]}"}
    while IFS=$'\t' read -r candidate _; do
        [[ $candidate == "$word"* ]] && COMPREPLY+=("${candidate#"$prefix"}")
    done < <("${words[0]}" --complete "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -F _ublkctl ublkctl
