#: with iopoll, no interrupt tells of the ends of reads on an NVMe disk, by blocks or by commands
#: machines qemu
#: targets nvmfd
#: providers verbs
#: disk nvme
#: seconds 240
load nvme
until_true 10 test -c /dev/ng0n1 || fail "the machine has no NVMe disk"
# Interrupts of the disk's I/O queues.
interrupts() { awk '/nvme0q[1-9]/ { for (i = 2; i < NF && $i ~ /^[0-9]+$/; i++) sum += $i } END { print sum + 0 }' /proc/interrupts; }
for disk in /dev/nvme0n1 /dev/ng0n1; do
    target_up -x 'iopoll = true' $disk
    host_connect --nr-io-queues 1
    verify_run "polled${disk//\//-}" --bs=16k --iodepth=8 --size=4m --fsync=32
    before=$(interrupts)
    load_run "reads${disk//\//-}" --rw=randread --bs=4k --iodepth=8 --size=4m
    told=$(($(interrupts) - before))
    say "$disk: $told interrupts for 1024 reads"
    ((told < 100)) || fail "$told interrupts for 1024 reads of $disk"
    host_disconnect
    target_down
done
