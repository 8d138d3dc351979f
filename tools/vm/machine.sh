# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# The virtual machine: its devices, and watching over it until it is off.

# qemu_tree   prints a directory with Debian 13's QEMU. Before 8.1 an emulated CPU could go on running a breakpoint that the
# kernel had just replaced ("accel/tcg: Always lock pages before translation"): one boot in thirty panicked, "Oops: int3".
qemu_tree() {
    local packages=qemu-system-x86 tree
    tree=$cache/trees/qemu-$(key $packages "$(declare -f debootstrap_into)")
    made "$tree" "the emulator" make_tree directory trixie $packages
    echo "$tree"
}

# qemu_command KERNEL-DIR   sets `qemu` to the command line of a machine in $work.
qemu_command() {
    local tree
    tree=$(qemu_tree)
    # Emulated code is translated anew wherever it is mapped: without address randomisation a process
    # starts three times as fast.
    local accel=(-accel tcg -cpu qemu64) speed="mitigations=off norandmaps"
    local kernel=$1/vmlinuz modules=$1/modules.img
    if [ "${UBLK_VM_ACCEL-}" != tcg ] && [ -w /dev/kvm ] && grep -qE '^flags.* (vmx|svm) ' /proc/cpuinfo; then
        accel=(-accel kvm -cpu host) speed=''
    fi
    [ ! -e "$1/vmlinux" ] || kernel=$1/vmlinux
    [ -e "$modules" ] || modules=''
    # In place, with the tree's own dynamic linker: this machine may run another release.
    qemu=(setpriv --pdeathsig KILL
        "$tree/lib64/ld-linux-x86-64.so.2" --library-path "$tree/usr/lib/x86_64-linux-gnu"
        "$tree/usr/bin/qemu-system-x86_64" -L "$tree/usr/share/qemu" -L "$tree/usr/share/seabios"
        -name "ublk-ruby ${work##*/}" -no-user-config -nodefaults -display none
        -machine q35 "${accel[@]}" -smp "$cpus" -m "$mem"
        -kernel "$kernel"
        -append "root=PARTUUID=$root_partuuid rootwait rw init=/usr/lib/vmtest/init \
systemd.unit=vmtest.target console=ttyS0 TERM=dumb sysrq_always_enabled audit=0 $speed \
${modules:+VMTEST_MODULES=yes}"
        # The console takes a client (sysrq) without needing one.
        -chardev "socket,id=console,path=$work/console.sock,server=on,wait=off,mux=on,logfile=$work/console.log,logappend=on"
        -serial chardev:console
        -device virtio-serial
    )
    virtio_port live "$work/live"
    virtio_port events "$work/events"
    virtio_port journal "$work/journal.log"
    drive root "$work/root.qcow2" format=qcow2
    drive payload "$work/payload.tar" format=raw,readonly=on
    drive results "$work/results" format=raw
    [ -z "$modules" ] || drive modules "$modules" format=raw,readonly=on
}

virtio_port() { # NAME FILE
    qemu+=(-chardev "file,id=$1,path=$2,append=on" -device "virtserialport,chardev=$1,name=$1")
}

drive() { # NAME FILE OPTIONS
    qemu+=(-drive "if=none,id=$1,file=$2,cache=unsafe,$3" -device "nvme,drive=$1,serial=$1")
}

# run_machine KERNEL-DIR IMAGE   from power on to power off, more than once if a scenario wants it;
# 124 if the time is up, 125 if it crashed or ended with work left to do (the reason is in $work/why).
run_machine() {
    local qemu status deadline
    qemu-img create -q -f qcow2 -b "$2" -F raw "$work/root.qcow2"
    truncate -s 16G "$work/results"
    mkfifo "$work/live"
    touch "$work"/{events,journal.log,console.log,output.log}
    qemu_command "$1"
    deadline=$((SECONDS + timeout))
    while true; do
        status=0
        power_on || status=$?
        [ $status = 0 ] || return $status
        grep -qx 'done' "$work/events" && return 0
        if [ "$(head -c 5 "$work/results" | tr -d '\0')" = again ]; then
            truncate -s 0 "$work/results"
            truncate -s 16G "$work/results"
            continue
        fi
        if [ -s "$work/qemu.err" ]; then
            tail -n 1 "$work/qemu.err"
        else
            echo "the machine went off by itself"
        fi >"$work/why"
        return 125
    done
}

# power_on   runs QEMU until it ends, printing what scenarios print.
power_on() {
    local printer status=0
    tee -a "$work/output.log" <"$work/live" &
    printer=$!
    "${qemu[@]}" </dev/null 2>>"$work/qemu.err" &
    machine=$!
    while kill -0 "$machine" 2>/dev/null; do
        wait_for "$machine" 1
        if grep -q 'Kernel panic - not syncing' "$work/console.log"; then
            echo "the kernel panicked: $(grep -m 1 -o 'Kernel panic - .*' "$work/console.log" | tr -d '\r')" >"$work/why"
            status=125
            sleep 1 # for the rest of the message
            break
        fi
        if [ $SECONDS -ge "$deadline" ]; then
            say "the time is up; asking the kernel where it hangs (console.log)"
            timeout 60 "$vm_dir/sysrq" "$work/console.sock" 9 w l t || true
            status=124
            break
        fi
    done
    stop_machine
    : <>"$work/live" # in case QEMU never opened it, for which the printer waits
    wait "$printer" || true
    return $status
}

# wait_for PID SECONDS   until that child has ended, at most so long.
wait_for() {
    local timer
    sleep "$2" &
    timer=$!
    wait -n "$1" "$timer" || true
    kill "$timer" 2>/dev/null || true
    wait "$timer" 2>/dev/null || true
}

stop_machine() {
    [ -n "${machine-}" ] || return 0
    kill -KILL "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
    machine=''
}
