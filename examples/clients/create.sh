#!/bin/bash
# A client of org.ublk in a shell, with busctl: makes a RAM disk, follows what becomes of it, shows what it has done, and deletes it.
# As root:  create.sh NAME SIZE       SIZE in bytes
set -euo pipefail
name=${1?name} size=${2?size in bytes}
service=org.ublk manager=/org/ublk

# call PATH INTERFACE METHOD SIGNATURE ARGUMENT...   prints the answer as JSON; what failed goes to standard error, with the error's
# name. busctl prints only the message; what else there is to know is in what it logs.
call() {
    local log status=0
    log=$(mktemp)
    SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_COLOR=0 busctl --json=short --timeout=60 call $service "$@" 2>"$log" || status=$?
    [ $status = 0 ] || sed -n 's/.*type=error.*error-name=\([^ ]*\) error-message=\(.*\)/\1: \2/p' "$log" >&2
    rm -f "$log"
    return $status
}
# value KEY   of the JSON that a call has printed: the number behind a key of a{sv}
value() { grep -o "\"$1\":{\"type\":\"[a-z]*\",\"data\":[^,}]*" | sed 's/.*://'; }

property() { busctl get-property $service "$object" org.ublk.Device "$1" | sed 's/^[a-z]* //; s/"//g'; }

# What the service says while this runs: `busctl monitor` would do for root, but does not tell when it has begun to listen.
exec {signals}< <(exec ublkctl monitor)
monitor=$!
trap 'kill $monitor 2>/dev/null' EXIT
# signal EVENT   waits for it: added, changed, removed
signal() {
    local line
    while read -rt 30 line <&$signals; do
        [[ $line != *" $name $1"* ]] || { echo "signal: ${line#* }"; return; }
    done
    echo "no signal has come: $1" >&2
    return 1
}
read -r _ <&$signals # "Waiting for signals"

# The answer comes when the disk is there, or when nothing is left of it.
answer=$(call $manager org.ublk.Manager CreateDevice 'ssa{sv}' "$name" memory 1 size t "$size")
object=$(grep -o '/org/ublk/device/[0-9]*' <<<"$answer")
signal added
node=$(property Node)
echo "made: $object, $node, $(property State)"

dd if=/dev/zero of="$node" bs=64k count=4 oflag=direct conv=notrunc 2>/dev/null
statistics=$(call "$object" org.ublk.Device GetStatistics '')
echo "written: $(value written-bytes <<<"$statistics") bytes in $(value requests <<<"$statistics") requests"

# An error has a name, which programs go by, and a message, which people read.
call $manager org.ublk.Manager CreateDevice 'ssa{sv}' "$name" memory 1 size t "$size" 2>&1 && exit 1

call "$object" org.ublk.Device Restart 'a{sv}' 0 >/dev/null
signal changed
call "$object" org.ublk.Device Delete 'a{sv}' 0 >/dev/null
signal removed
echo "deleted: $name"
