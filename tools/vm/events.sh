# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# What the guest told the host, as one line each in a file, and what is to be made of it:
#   boot UPTIME                      it is up, after that many seconds (again after each restart)
#   begin NAME                       a scenario starts
#   end NAME STATUS SECONDS [WHY]    it ended
#   note TEXT                        something a reader of the results should know
#   done                             results are written, the machine goes off

# summary EVENTS WHY NAME...   one line per scenario, then the count; 1 if one did not pass.
summary() {
    local events=$1 why=$2 name line status seconds reason passed=0 failed=0
    shift 2
    for name; do
        line=$(grep "^end $name " "$events" || true)
        read -r _ _ status seconds reason <<<"$line" || true
        if [ -z "$line" ] && grep -qx "begin $name" "$events"; then
            reason="did not end: $why"
        elif [ -z "$line" ]; then
            reason="not run: $why"
        elif [ "$status" = 0 ]; then
            reason=""
        else
            reason=${reason:-exit status $status, $seconds s}
        fi
        if [ -z "$reason" ]; then
            passed=$((passed + 1))
            echo "ok $name ($seconds s)"
        else
            failed=$((failed + 1))
            echo "not ok $name ($reason)"
        fi
    done
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}
