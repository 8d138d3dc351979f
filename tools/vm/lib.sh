# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# What every part of tools/vm shares: where things are, how they speak, how a thing is made once.
#
# Everything that takes long to make is kept under $cache, named by a hash of what it is made from,
# so that a changed input makes a new thing and never alters one that another run is using.
# Deleting the whole cache is always safe; it costs the time to make things again.

set -euo pipefail
shopt -s inherit_errexit nullglob

vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$vm_dir/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ublk-ruby

say() { printf 'vm: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
usage_error() { say "$*"; say "try: ${0##*/} --help"; exit 2; }

# The text between the first comment's lines "# Usage:" and the end of that comment.
usage() { sed -n '/^# Usage:/,/^$/ { s/^# \{0,1\}//; p }' "$0"; }

# need COMMAND-OR-FILE PACKAGE ...   installs the packages whose command or file is missing.
need() {
    local missing=()
    while [ $# -gt 0 ]; do
        case $1 in
        /*) [ -e "$1" ] || missing+=("$2") ;;
        *) command -v "$1" >/dev/null || missing+=("$2") ;;
        esac
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || die "missing here: ${missing[*]} (install them, or run as root)"
    say "installing ${missing[*]}"
    local log=$cache/apt-install.log apt=(apt-get -q -y -o DPkg::Lock::Timeout=600)
    mkdir -p "$cache"
    { "${apt[@]}" install --no-install-recommends "${missing[@]}" ||
        { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; }; } \
        >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; die "cannot install ${missing[*]}"; }
}

# key FILE|TEXT ...   a short hash of these files' contents and these texts.
key() {
    local part
    for part; do
        if [ -f "$part" ]; then cat "$part"; else printf '%s\n' "$part"; fi
    done | sha256sum | cut -c1-12
}

# made PATH WHAT COMMAND...   runs COMMAND... PATH.new and renames it to PATH, unless PATH is there.
# One process makes it; others that want the same thing wait for it.
made() {
    local path=$1 what=$2 lock
    shift 2
    if [ -e "$path" ]; then
        touch -ch "$path" # for prune
        return
    fi
    mkdir -p "$(dirname "$path")"
    exec {lock}>"$path.lock"
    flock -n "$lock" || {
        say "waiting for another run, which is making $what"
        flock "$lock"
    }
    if [ ! -e "$path" ]; then
        say "making $what"
        local start=$SECONDS
        rm -rf --one-file-system "$path.new"
        "$@" "$path.new"
        touch -ch "$path.new" # or it has the date of some package
        mv "$path.new" "$path"
        say "made $what ($((SECONDS - start)) s)"
    fi
    exec {lock}>&-
}

# scratch   prints a new directory for something that is being made.
scratch() { mkdir -p "$cache/tmp" && mktemp -d "$cache/tmp/XXXXXX"; }

# prune   removes what no run has used for some days, and what broken ones left.
prune() {
    local path
    older() { find "$@" -exec rm -rf --one-file-system {} + 2>/dev/null || true; }
    older "$cache"/{images,trees,checkouts} -mindepth 1 -maxdepth 1 -mtime +7 ! -name '*.new'
    older "$cache"/{tmp,runs,out,matrix} -mindepth 1 -maxdepth 1 -mtime +3
    # Some process may be making it at this moment: while a tree is unpacked it has the date of a package.
    for path in "$cache"/{images,trees}/*.new; do
        flock -n "${path%.new}.lock" rm -rf --one-file-system "$path" || true
    done
}

# quietly LOG COMMAND...   runs COMMAND with its output in LOG; shows LOG's end if COMMAND fails.
quietly() {
    local log=$1 status=0
    shift
    "$@" >"$log" 2>&1 </dev/null || status=$?
    [ $status = 0 ] || { tail -n 40 "$log" >&2; die "failed: $1 (whole log: $log)"; }
}
