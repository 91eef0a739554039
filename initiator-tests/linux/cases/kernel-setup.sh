#: the scripts of kernel-setup for iWARP, the host's side, CPUs and pauses do what they say: a disk over devices that siw.sh made, connected as at a boot, and all taken back
#: machines uml
#: providers verbs
#: targets nvmfd
#: topologies siw
folder=$WORK/kernel-setup
host_dev=host0 target_dev=target0
status_of() {
    local status=0
    "$@" >"$OUT/said" 2>&1 || status=$?
    say "${*##*/}: status $status: $(tr '\n' ';' <"$OUT/said")"
    echo $status >"$OUT/status"
}
# gives STATUS SCRIPT ARGUMENTS...
gives() {
    local wanted=$1
    shift
    status_of "$folder/$1" "${@:2}"
    expect "$wanted" "$(cat "$OUT/status")" "status of $*"
}

# The devices that the machine came with make way for those of the script.
rdma link delete siwH
rdma link delete siwT
for netdev in $host_dev $target_dev; do
    gives 1 siw.sh --check $netdev
    gives 0 siw.sh $netdev
    gives 0 siw.sh $netdev
    gives 0 siw.sh --check $netdev
    expect_match "link siw_$netdev/1 .*netdev $netdev" "$(rdma link)" "rdma link"
done

target_up ram:64
rm -f /etc/nvme/hostnqn
gives 1 initiator.sh --check "$TARGET_ADDR"
status_of "$folder/initiator.sh" "$TARGET_ADDR"
test -s /etc/nvme/hostnqn || fail "this host has no name: $(cat "$OUT/said")"
# What systemd does with the service, at a boot.
unit=/etc/systemd/system/nvmfd-connect.service
sed -n 's/^ExecStart=-\{0,1\}//p' $unit >"$OUT/commands"
expect 1 "$(grep -c . "$OUT/commands")" "commands of the service"
say "$(cat "$OUT/commands")"
bash -e "$OUT/commands"
until_true 10 host_find || fail "the service connected nothing"
expect off "$(cat "/sys/class/nvme/$CTRL/ctrl_loss_tmo")" "patience of the host"
verify_run over-siw --bs=4k --iodepth=8 --size=16M
gives 0 initiator.sh --check "$TARGET_ADDR"
gives 0 initiator.sh --undo
gives 1 initiator.sh --check "$TARGET_ADDR"
host_disconnect
target_down

# They hold after a reboot, which this machine does not have.
gives 1 isolate-cpus.sh --check 1
gives 1 isolate-cpus.sh 1
expect_match "isolcpus=managed_irq,domain,1 nohz_full=1 rcu_nocbs=1: on the kernel's command line after" \
    "$(cat "$OUT/said")" "what is missing yet"
gives 0 isolate-cpus.sh --undo
# No software device has priorities to pause.
gives 1 lossless.sh $target_dev
expect_match "no priority flow control that the kernel can set" "$(cat "$OUT/said")" "what is wrong with it"
test ! -e /etc/systemd/system/nvmfd-lossless-$target_dev.service || fail "a service was made all the same"

for netdev in $host_dev $target_dev; do
    gives 0 siw.sh --undo $netdev
done
expect "" "$(rdma link)" "RDMA devices after --undo"
# The next case of this machine finds what this one found.
rdma link add siwH type siw netdev $host_dev
rdma link add siwT type siw netdev $target_dev
