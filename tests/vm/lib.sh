# shellcheck shell=bash
# What the scenarios share: TAP output, devices made over D-Bus, and a look for what was left behind.
# A scenario ends with `finish`, which prints the plan and gives the exit status.

set -u
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${OUT:-$(mktemp -d)}
last=$out/last-command     # what the latest check printed: shown if it failed
answer=$out/answer         # what the latest create, delete, or the scenario itself put there
n_tests=0 n_failed=0
[ "${BOOT:-1}" = 1 ] || n_tests=$(<"$out/n_tests")

note() { echo "# $*"; }

pass() { n_tests=$((n_tests + 1)); echo "ok $n_tests - $*"; }
fail() {
    n_tests=$((n_tests + 1)) n_failed=$((n_failed + 1))
    echo "not ok $n_tests - $*"
    sed 's/^/#   /' "$last" 2>/dev/null | tail -n 25
}

# check WHAT COMMAND...        the command succeeds
check() {
    local what=$1
    shift
    if "$@" >"$last" 2>&1; then pass "$what"; else fail "$what"; fi
}
# check_not WHAT COMMAND...    the command fails
check_not() {
    local what=$1
    shift
    if "$@" >"$last" 2>&1; then fail "$what"; else pass "$what"; fi
}
# equal WHAT GOT WANTED
equal() {
    echo "got $2, wanted $3" >"$last"
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1"; fi
}
# nap SECONDS   a sleep that starts no process: one costs an emulated machine more than the sleep takes
exec {nothing}<> <(:)
nap() { read -rt "$1" -u "$nothing" || true; }
# until_true SECONDS COMMAND...
until_true() {
    local deadline=$((SECONDS + $1))
    shift
    while ! "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        nap 0.05
    done
}

finish() {
    echo "1..$n_tests"
    [ "$n_failed" -eq 0 ] || { echo "# $n_failed of $n_tests failed"; exit 1; }
    exit 0
}

# restart_machine [ARG of vm-reboot]...   the scenario begins again with BOOT one higher, and goes on counting
restart_machine() {
    [ "$n_failed" -eq 0 ] || finish
    echo "$n_tests" >"$out/n_tests"
    vm-reboot "$@"
}

# create NAME HOOK N_OPTIONS [KEY TYPE VALUE]...   sets $id, $unit, $node; the answer is in $answer
create() {
    local path
    busctl --timeout=100 call org.ublk /org/ublk org.ublk.Manager CreateDevice 'ssa{sv}' "$@" >"$answer" 2>&1 ||
        { cat "$answer"; return 1; }
    path=$(sed -n 's/^o "\(.*\)"$/\1/p' "$answer")
    id=${path##*/} node=/dev/ublkb${path##*/} unit=ublk-ruby-device@${path##*/}.service
    [[ $id =~ ^[0-9]+$ ]]
}
delete() { busctl --timeout=100 call org.ublk /org/ublk org.ublk.Manager DeleteDevice 'sa{sv}' "$1" 0 >"$answer" 2>&1 || { cat "$answer"; return 1; }; }

# hook NAME...   installs hooks of tests/vm/hooks
hook() {
    local name
    mkdir -p /etc/ublk-ruby/hooks
    for name in "$@"; do
        install -m 644 "$here/hooks/$name.rb" /etc/ublk-ruby/hooks/
    done
}

# image PATH MIB   a file for the file hook
image() {
    mkdir -p "$(dirname "$1")"
    truncate -s "$2M" "$1"
    chown ublk-ruby "$1"
}

property() { busctl get-property org.ublk "/org/ublk/device/$1" org.ublk.Device "$2" | sed 's/^[a-z]* //; s/^"\(.*\)"$/\1/'; }
worker_pid() { systemctl show -P MainPID "$unit"; } # 0 while there is none
in_flight() { awk '{ print $1 + $2 }' "/sys/block/ublkb$id/inflight"; }
is_live() { [ "$(systemctl is-active "$unit")" = active ]; }

# fio_json FILE EXPRESSION   evaluates Ruby on the first job of fio's JSON, which may have messages in front of it
fio_json() {
    ruby -rjson -e 'text = File.read(ARGV[0]); job = JSON.parse(text[text.index(/^{/)..])["jobs"][0]; puts eval(ARGV[1])' "$@"
}

# leftovers   prints whatever of ours is still there: kernel devices, nodes, units, files
leftovers() {
    local entry
    for entry in /sys/class/ublk-char/* /dev/ublkb* /dev/ublkc* /run/ublk-ruby/devices/* /run/ublk-ruby/nodes/* \
        /run/ublk-ruby/[0-9]* /run/ublk-ruby-control/*-[0-9]* /run/ublk-ruby-check/* /etc/ublk-ruby/devices/* /dev/disk/by-id/ublk-* \
        /var/lib/ublk-ruby/* /var/lib/ublk-ruby/.[!.]*; do
        [ ! -e "$entry" ] || echo "$entry"
    done
    systemctl list-units --all --plain --no-legend 'ublk-ruby-device@*'
    pgrep -a ublk-ruby-work || true
}
check_nothing_left() {
    until_true 5 eval '[ -z "$(leftovers)" ]'
    leftovers >"$last"
    if [ -s "$last" ]; then fail "${1:-nothing is left}"; else pass "${1:-nothing is left}"; fi
}
