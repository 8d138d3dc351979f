# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# The scenarios in tests/vm, and which of them make sense on which kernel.

# scenarios   every one's name: the executable files there, but for what they share (lib*).
scenarios() {
    local file
    for file in "$checkout"/tests/vm/*; do
        [ -f "$file" ] && [ -x "$file" ] && [[ ${file##*/} != lib* ]] && echo "${file##*/}"
    done
    return 0
}

# lacks NAME KERNEL   prints why that scenario is not for that kernel: the features that the kernel
# lacks, or "-" if the scenario is about lacking one that this kernel has; nothing if it is for it.
lacks() {
    local needs feature version first has missing=()
    version=$(grep -oE '^v?[0-9]+\.[0-9]+' <<<"$2" | tr -d v || true)
    [ -n "$version" ] || return 0 # a file: whatever is asked for is tried
    needs=$(head -n 30 "$checkout/tests/vm/$1" | sed -n 's/^# needs: *//p')
    for feature in ${needs:-user-copy}; do
        first=$(awk -v f="${feature#!}" '$1 == f { print $2 }' "$vm_dir/features")
        [ -n "$first" ] || die "tests/vm/$1 needs $feature, which tools/vm/features does not know"
        has=''
        if printf '%s\n' "$first" "$version" | sort -VC; then has=yes; fi
        case $feature,$has in
        !*,yes) echo "-" && return ;;
        !*, | *,yes) ;;
        *) missing+=("$feature") ;;
        esac
    done
    echo "${missing[*]}"
}
