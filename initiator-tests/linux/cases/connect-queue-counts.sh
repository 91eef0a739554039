#: a host has as many I/O queues as it asks for, up to the most that there are: 1, 2, 16 and 64 of three kinds
#: targets nvmfd
#: cpus 22
#: seconds 150
# A host makes of each kind no more than it has processors.
most=$(nproc)
share() { echo $((left > most ? most : left)); }
# connect QUEUES: sets poll to how many of them are for polling.
connect() {
    local left=$1 io write
    io=$(share) && left=$((left - io))
    write=$(share) && left=$((left - write))
    poll=$(share)
    say "$1 queues: $io, $write for writes, $poll for polling"
    host_connect --nr-io-queues "$io" --nr-write-queues "$write" --nr-poll-queues "$poll"
}
queues() { cat "/sys/class/nvme/$CTRL/queue_count"; }
target_up -t 'max_io_queues = 64' ram:256
for count in 1 2 3 16 64; do
    ((count <= 3 * most)) || continue
    connect $count
    expect $((count + 1)) "$(queues)" "queues with the admin queue"
    jobs=$((count > most ? most : count))
    verify_run "use-$count" --bs=4k --iodepth=4 --numjobs=$jobs --offset_increment=2m --size=256k
    ((poll == 0)) || load_run "poll-$count" --rw=randread --hipri --bs=4k --iodepth=4 --numjobs=$jobs --offset_increment=2m --size=256k
    host_disconnect
done
target_down
target_up -t 'max_io_queues = 2' ram:64
connect 3
expect 3 "$(queues)" "queues with the admin queue where two are the most"
verify_run capped --bs=4k --iodepth=4 --size=256k
host_disconnect
