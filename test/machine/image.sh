#!/usr/bin/env bash
# Makes the disk of a small Debian, with its kernel, in the folder DIR: a machine with
# systemd and cgroup v2, on which tests may do what they can't on ours (see machine_test.go).
set -euo pipefail

dir=${1:?usage: image.sh DIR}
release=bookworm
# What a node needs, and what tests need beside it: a server for NFS, AppArmor's parser, and
# a policy for SELinux. Files have no labels: it is not enforced, as it comes.
packages=systemd,systemd-sysv,dbus,kmod,mount,iproute2,iptables,nfs-kernel-server,nfs-common,apparmor,selinux-policy-default,initramfs-tools,linux-image-cloud-amd64

mkdir -p "$dir"
tree=$(mktemp -d "$dir/tree.XXXXXX")
trap 'rm -rf "$tree"' EXIT

debootstrap --variant=minbase --include="$packages" "$release" "$tree" >"$dir/debootstrap.log" ||
	{ tail -20 "$dir/debootstrap.log" >&2; exit 1; }

# Nothing that wakes up by itself, or waits for somebody at a console.
for unit in serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
	ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
echo machine >"$tree/etc/hostname"
echo '/dev/vdb /berth ext4 defaults 0 0' >"$tree/etc/fstab"
mkdir "$tree/berth"
# What is on the second disk says what is to be done. Its output goes to a line of its own.
cat >"$tree/etc/systemd/system/berth-test.service" <<-'END'
	[Unit]
	Description=tests of berth
	RequiresMountsFor=/berth
	After=multi-user.target
	[Service]
	ExecStart=/berth/run
	StandardOutput=file:/dev/ttyS1
	StandardError=inherit
	[Install]
	WantedBy=default.target
END
ln -s ../berth-test.service "$tree/etc/systemd/system/multi-user.target.wants/"
rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale}

cp "$tree"/boot/vmlinuz-* "$dir/kernel"
cp "$tree"/boot/initrd.img-* "$dir/initrd"
rm -f "$dir/disk.part"
mkfs.ext4 -q -L machine -d "$tree" "$dir/disk.part" 2G
mv "$dir/disk.part" "$dir/disk"
