#!/bin/bash
# First process of the User-Mode Linux guest, whose root is the outer machine's
# root, read-only: lay a writable layer over it and go on there with agent.sh.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
work=$(sed -n 's/.*harness\.work=\([^ ]*\).*/\1/p' /proc/cmdline)
umount /proc
mount -t tmpfs -o mode=755 layer /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work root /mnt/root
mount -t tmpfs -o mode=1777 tmp /mnt/root/tmp
mkdir -p "/mnt/root/$work"
mount -t hostfs -o "$work" work "/mnt/root/$work"
exec chroot /mnt/root /bin/bash "$work/guest/agent.sh" "$work" /dev/console
