# The target under test: TARGET is nvmfd (the daemon) or nvmet (the kernel's own).
#
#   target_up [-n NQN] [-a HOSTNQN]... [-t 'tuning line']... [-x CONFIGURATION] BACKING...
#     one subsystem with a namespace per BACKING, listening on TARGET_ADDR:4420;
#     any host may connect unless -a names those allowed; -x adds text to the
#     daemon's configuration, behind the last namespace
#   target_down    end it in order (the daemon: SIGTERM, at most 10 s, status 0)
#   target_crash   end it without any order; target_again brings it back
#   target_ticks   processor time it has used, in clock ticks (the daemon only)
#   target_sleeps  how often its threads have gone to sleep (the daemon only)
#   target_tell    a command of the daemon's that goes to its control socket:
#                  target_tell remove namespace NQN 2
#   target_refuses the same, for one that must fail
#   target_reload CONFIGURATION   read a configuration with this text instead of
#                  what -x gave (the daemon only)
#
# With the topologies tap and routed all this happens outside of the machine: there
# these words mean requests to outside.sh (see wire.sh). DISKS is the folder that
# files of disks are in, in sight of the guest either way.
#
# BACKING is KIND:MIB or a device or file. Kinds: ram and null (the daemon's own;
# for the kernel target brd and null_blk), brd (a RAM disk of the kernel), loop
# (a loop device over a file in memory), file (a file in an ext4 file system,
# opened without page cache), pagefile (a file in memory, through the page cache).

NQN=nqn.2026-11.io.nvmfd:case
target_pid=
nvmfd_prefix=()
nvmet=/sys/kernel/config/nvmet
brd_used=0 disks_made=()
# The daemon's control socket: its path must be short.
CONTROL=/run/nvmfd-case.sock

target_up() {
    local option OPTIND=1 OPTARG
    target_nqn=$NQN allowed=() tuning=() further='' backings=()
    while getopts n:a:t:x: option; do
        case $option in
        n) target_nqn=$OPTARG ;;
        a) allowed+=("$OPTARG") ;;
        t) tuning+=("$OPTARG") ;;
        x) further=$OPTARG ;;
        *) fail "target_up: wrong use" ;;
        esac
    done
    shift $((OPTIND - 1))
    backings=("$@")
    "${TARGET}_up"
}
target_again() { "${TARGET}_again"; }
target_crash() { "${TARGET}_crash"; }
target_tell() { "${TARGET}_tell" "$@"; }
target_refuses() { "${TARGET}_refuses" "$@"; }
target_reload() { "${TARGET}_reload" "$@"; }
target_down() {
    local status=0
    "${TARGET}_down" || status=$?
    disks_remove
    return $status
}

# --- disks to put behind a namespace ------------------------------------------

# Set disk_path (and disk_buffered) for a backing that is a path for both targets.
disk_make() {
    local kind=${1%%:*} mib=${1#*:}
    disk_buffered=false
    case $kind in
    brd)
        brd_load
        disk_path=/dev/ram$brd_used
        brd_used=$((brd_used + 1))
        ;;
    loop)
        load loop
        truncate -s "${mib}M" "$DISKS/loop$mib"
        disk_path=$(losetup -f --show "$DISKS/loop$mib")
        disks_made+=("losetup -d $disk_path")
        ;;
    file)
        brd_load
        load ext4
        mkfs.ext4 -q -F -O ^has_journal "/dev/ram$brd_used"
        mkdir -p "$DISKS/fs$brd_used"
        mount -t ext4 "/dev/ram$brd_used" "$DISKS/fs$brd_used"
        disk_path=$DISKS/fs$brd_used/disk.img
        disks_made+=("umount $DISKS/fs$brd_used")
        brd_used=$((brd_used + 1))
        truncate -s "${mib}M" "$disk_path"
        ;;
    pagefile)
        disk_path=$DISKS/disk$mib.img
        disk_buffered=true
        truncate -s "${mib}M" "$disk_path"
        ;;
    nullblk)
        [ "$MACHINE" = uml ] || modprobe null_blk nr_devices=0
        # Newer kernels name the device by this folder, older ones count.
        local n=/sys/kernel/config/nullb/nullb0
        mkdir "$n"
        echo "$mib" >"$n/size"
        echo 0 >"$n/irqmode"
        echo 128 >"$n/hw_queue_depth"
        echo 1 >"$n/power"
        disk_path=/dev/nullb0
        disks_made+=("rmdir $n")
        until_true 5 test -b $disk_path
        ;;
    *) disk_path=$1 ;;
    esac
}

# RAM disks of 512 MiB whose memory is taken as they are written.
brd_load() { [ "$MACHINE" = uml ] || modprobe brd rd_nr=4 rd_size=524288; }

disks_remove() {
    local step
    for step in "${disks_made[@]}"; do $step || true; done
    disks_made=()
    [ "$MACHINE" = uml ] || modprobe -q -r brd || true
    rm -rf "${DISKS:?}"/*
}

# --- the daemon ---------------------------------------------------------------

nvmfd_up() {
    local backing
    nvmfd_config=$DISKS/nvmfd.toml
    nvmfd_disks=
    for backing in "${backings[@]}"; do
        nvmfd_disks+="[[subsystem.namespace]]"$'\n'
        case $backing in
        ram:* | null:*) nvmfd_disks+="${backing%%:*} = \"${backing#*:}MiB\""$'\n' ;;
        *)
            disk_make "$backing" >&2
            nvmfd_disks+="path = \"$disk_path\""$'\n'
            [ $disk_buffered = false ] || nvmfd_disks+="buffered = true"$'\n'
            ;;
        esac
    done
    nvmfd_write "$further"
    cp $nvmfd_config "$OUT/nvmfd.toml"
    "$WORK/bin/nvmfd" check --config $nvmfd_config >>"$OUT/target.log" 2>&1
    nvmfd_again
}

# nvmfd_write FURTHER: the configuration file.
nvmfd_write() {
    {
        echo "[[listener]]"
        echo "address = \"$TARGET_ADDR:4420\""
        echo "provider = \"$PROVIDER\""
        echo "[[subsystem]]"
        echo "nqn = \"$target_nqn\""
        if [ ${#allowed[@]} = 0 ]; then
            echo "allow_any_host = true"
        else
            echo "allowed_hosts = [$(printf '"%s",' "${allowed[@]}")]"
        fi
        echo "$nvmfd_disks"
        echo "$1"
        echo "[control]"
        echo "socket = \"$CONTROL\""
        if [ ${#tuning[@]} != 0 ]; then
            echo "[tuning]"
            printf '%s\n' "${tuning[@]}"
        fi
    } >$nvmfd_config
}

nvmfd_tell() { "$WORK/bin/nvmfd" "$@" --socket "$CONTROL"; }
nvmfd_refuses() { if nvmfd_tell "$@"; then fail "the daemon made a change that it should refuse: $*"; fi; }
nvmfd_reload() {
    nvmfd_write "$1"
    nvmfd_tell reload
}

nvmfd_again() {
    local before
    before=$(nvmfd_ready_lines)
    "${nvmfd_prefix[@]}" "$WORK/bin/nvmfd" serve --config $nvmfd_config >>"$OUT/target.log" 2>&1 &
    target_pid=$!
    until_true 30 nvmfd_settled "$before" || fail "the daemon was not ready after 30 s"
    kill -0 $target_pid 2>/dev/null || fail "the daemon ended at once: $(tail -n 1 "$OUT/target.log")"
}
nvmfd_ready_lines() { grep -cw ready "$OUT/target.log" || true; }
nvmfd_settled() { [ "$(nvmfd_ready_lines)" -gt "$1" ] || ! kill -0 $target_pid; }

target_ticks() { awk '{ print $14 + $15 }' "/proc/$target_pid/stat"; }
target_sleeps() {
    awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }' "/proc/$target_pid"/task/*/status
}

nvmfd_crash() {
    kill -KILL $target_pid
    wait $target_pid 2>/dev/null || true
    target_pid=
}

nvmfd_down() {
    [ -n "$target_pid" ] || return 0
    local pid=$target_pid status=0
    target_pid=
    kill -TERM $pid 2>/dev/null || true
    if ! until_true 10 nvmfd_gone $pid; then
        say "the daemon still runs 10 s after SIGTERM"
        cat /proc/$pid/task/*/stack 2>/dev/null || true
        kill -KILL $pid
        return 1
    fi
    wait $pid || status=$?
    [ $status = 0 ] || say "the daemon ended with status $status"
    return $status
}
# Gone, or ended and not yet waited for.
nvmfd_gone() { ! grep -q '^State:[[:space:]]*[^Z]' "/proc/$1/status"; }

# --- the kernel's target ------------------------------------------------------

nvmet_up() {
    local subsystem=$nvmet/subsystems/$target_nqn port=$nvmet/ports/1 host backing nsid=0 space
    load nvmet-rdma
    mkdir "$subsystem"
    if [ ${#allowed[@]} = 0 ]; then
        echo 1 >"$subsystem/attr_allow_any_host"
    fi
    for host in "${allowed[@]}"; do
        mkdir -p "$nvmet/hosts/$host"
        ln -s "$nvmet/hosts/$host" "$subsystem/allowed_hosts/$host"
    done
    for backing in "${backings[@]}"; do
        case $backing in
        ram:*) backing=brd:${backing#*:} ;;
        null:*) backing=nullblk:${backing#*:} ;;
        esac
        disk_make "$backing"
        nsid=$((nsid + 1))
        space=$subsystem/namespaces/$nsid
        mkdir "$space"
        echo -n "$disk_path" >"$space/device_path"
        [ $disk_buffered = false ] || echo 1 >"$space/buffered_io"
        echo 1 >"$space/enable"
    done
    mkdir "$port"
    echo rdma >"$port/addr_trtype"
    echo ipv4 >"$port/addr_adrfam"
    echo "$TARGET_ADDR" >"$port/addr_traddr"
    echo 4420 >"$port/addr_trsvcid"
    nvmet_again
}
nvmet_again() { ln -s "$nvmet/subsystems/$target_nqn" "$nvmet/ports/1/subsystems/$target_nqn"; }

# Taking the subsystem off its port ends every association at once.
nvmet_crash() { rm "$nvmet/ports/1/subsystems/$target_nqn"; }

nvmet_down() {
    [ -d $nvmet/ports/1 ] || return 0
    local subsystem=$nvmet/subsystems/$target_nqn space
    rm -f $nvmet/ports/1/subsystems/*
    rmdir $nvmet/ports/1
    for space in "$subsystem"/namespaces/*; do
        echo 0 >"$space/enable"
        rmdir "$space"
    done
    rm -f "$subsystem"/allowed_hosts/*
    rmdir "$subsystem"
    if [ -d $nvmet/hosts ]; then find $nvmet/hosts -mindepth 1 -maxdepth 1 -type d -exec rmdir {} +; fi
}
