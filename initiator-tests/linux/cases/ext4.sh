#: an ext4 file system keeps its files through a remount and is clean
#: topologies veth siw
#: core
#: seconds 120
load ext4
target_up ram:256
host_connect --nr-io-queues 2
filesystem_check "mkfs.ext4 -q -F" "fsck.ext4 -f -n"
host_disconnect
