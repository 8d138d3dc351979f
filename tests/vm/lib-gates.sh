# shellcheck shell=bash
# A worker, or the control run that brings it to its device, is stopped at a chosen place for as long as a scenario wants: by
# the hook `gated`, and by test-gate.so in `activate` (gate.c). So a death comes where it was meant to, and no sleep has to fit.
# Clients beside it say what they saw, and when.

gates=/run/gates
mkdir -p $gates /run/systemd/system/ublk-ruby-device@.service.d
chown ublk-ruby $gates
hook gated
cat >/run/systemd/system/ublk-ruby-device@.service.d/gates.conf <<'UNIT'
[Service]
ExecStartPost=
ExecStartPost=+/usr/bin/env LD_PRELOAD=/usr/lib/ublk-ruby/test-gate.so UBLK_GATES=/run/gates /usr/lib/ublk-ruby/ublk-ruby-control activate %i $MAINPID
UNIT
systemctl daemon-reload

# shut GATE [WHEN]   whoever comes to it next waits there: load and read of the hook, add-dev, start-dev,
# start-recovery and end-recovery of control, WHEN before or after the command was given to the kernel
shut() { : >"$gates/$1.${2:-before}"; }
# reached GATE [SECONDS]   waits until somebody waits there
reached() { until_true "${2:-30}" test -e "$gates/$1.at"; }
# pass_on GATE   lets them go on
pass_on() { rm -f "$gates/$1.at"; }
gates_done() {
    rm -rf $gates /run/systemd/system/ublk-ruby-device@.service.d /etc/ublk-ruby/hooks/gated.rb
    systemctl daemon-reload
}

# gated NAME [KEY TYPE VALUE]...   a device of 16 MiB in /srv/NAME.img
gated() {
    local name=$1
    shift
    image "/srv/$name.img" 16
    create "$name" gated $((2 + $# / 3)) path s "/srv/$name.img" gates s "$gates" "$@"
}

# worker_changed PID   another one serves. For a moment after a death systemd has no main process: 0. It is asked only once the unit
# has another process, be it `release` or `activate`: to be asked again and again would slow it down.
worker_changed() {
    local now
    read -r now <"/sys/fs/cgroup/ublk.slice/$unit/cgroup.procs" && [ "$now" != "$1" ] || return 1
    now=$(worker_pid)
    [ "$now" -gt 0 ] && [ "$now" != "$1" ] && is_live
}
kill_worker() {
    killed=$(worker_pid)
    [ "$killed" -gt 1 ] && kill -9 "$killed"
}

# client NAME COMMAND...   in the background; what it saw is in $out/client-NAME: "ok" or the text of the errno, then ms; all
# that it printed in $out/text-NAME
client() {
    local file=$out/client-$1 all=$out/text-$1
    shift
    rm -f "$file"
    {
        local text start=${EPOCHREALTIME/./} seen=ok
        text=$("$@" 2>&1) || seen=$(sed -n '1s/.*: //p' <<<"$text")
        echo "$text" >"$all"
        echo "${seen:-cut off} ($(((${EPOCHREALTIME/./} - start) / 1000)) ms)" >"$file.new"
        mv "$file.new" "$file"
    } &
}
saw() { cat "$out/client-$1" 2>/dev/null || echo waits; } # NAME
answered() { [ -e "$out/client-$1" ]; }
# equal_saw WHAT NAME PATTERN
equal_saw() {
    saw "$2" >"$last"
    if grep -qE "^($3)( |$)" "$last"; then pass "$1: $(cat "$last")"; else fail "$1: not $3"; fi
}
read_at() { dd if="$node" of=/dev/null bs=4k count=1 skip="$1" iflag=direct; }                      # BLOCK
write_at() { dd if=/dev/zero of="$node" bs=4k count=1 seek="$1" oflag=direct conv=notrunc,nocreat; } # BLOCK
