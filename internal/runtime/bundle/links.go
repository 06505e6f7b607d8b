package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"berth/internal/host/roots"
)

// limitPrefix begins the names of the devices that the bandwidth plugin makes.
const limitPrefix = "bwp"

// removeLinks removes the bridge of a root, its ports, and the devices that limit the traffic
// of the ports. A bridge that may be another root's as well is removed only if it has no ports
// left.
func removeLinks(owner roots.Owner) error {
	bridge, alone := owner.Bridge()
	link, err := netlink.LinkByName(bridge)
	if missing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", bridge, err)
	}
	if link.Type() != "bridge" {
		return fmt.Errorf("link %s is no bridge, but a %s: it is left alone", bridge, link.Type())
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	plugged := slices.DeleteFunc(links, func(l netlink.Link) bool { return l.Attrs().MasterIndex != link.Attrs().Index })
	if len(plugged) > 0 && !alone {
		return nil
	}
	var errs []error
	for _, l := range plugged {
		if l.Type() != "veth" {
			continue
		}
		limits, err := limitsOf(l)
		errs = append(errs, err)
		for _, device := range append(limits, l) {
			errs = append(errs, removeLink(device))
		}
	}
	return errors.Join(append(errs, removeLink(link))...)
}

// limitsOf returns the devices through which the traffic that enters link is sent.
func limitsOf(link netlink.Link) ([]netlink.Link, error) {
	filters, err := netlink.FilterList(link, netlink.MakeHandle(0xffff, 0))
	if err != nil {
		return nil, fmt.Errorf("list traffic limits of %s: %w", link.Attrs().Name, err)
	}
	var devices []netlink.Link
	for _, f := range filters {
		u32, ok := f.(*netlink.U32)
		if !ok {
			continue
		}
		for _, action := range u32.Actions {
			mirred, ok := action.(*netlink.MirredAction)
			if !ok {
				continue
			}
			device, err := netlink.LinkByIndex(mirred.Ifindex)
			if missing(err) {
				continue
			}
			if err != nil {
				return devices, fmt.Errorf("find traffic limit of %s: %w", link.Attrs().Name, err)
			}
			if strings.HasPrefix(device.Attrs().Name, limitPrefix) {
				devices = append(devices, device)
			}
		}
	}
	return devices, nil
}

func removeLink(l netlink.Link) error {
	// The index identifies a link, names are reused. The link may be gone with its peer.
	if _, err := netlink.LinkByIndex(l.Attrs().Index); missing(err) {
		return nil
	}
	if err := netlink.LinkDel(l); err != nil {
		return fmt.Errorf("remove link %s: %w", l.Attrs().Name, err)
	}
	return nil
}

func missing(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound)
}
