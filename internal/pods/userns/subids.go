package userns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"berth/internal/runtime/render"
)

// kubelet is the user in /etc/subuid whose ids are for pods. The name is that of the kubelet, so that
// a machine that was set up for it needs no change.
const kubelet = "kubelet"

// Machine looks up users and their subordinate ids.
type Machine struct {
	// HasUser returns nil for a user that exists, and user.UnknownUserError for others.
	HasUser func(name string) error
	// GetSubIDs runs getsubids(1). The error is exec.ErrNotFound if it is not installed.
	GetSubIDs func(ctx context.Context, args ...string) ([]byte, error)
}

// ThisMachine returns the Machine that the agent runs on.
func ThisMachine() Machine {
	return Machine{
		HasUser: func(name string) error {
			_, err := user.Lookup(name)
			return err
		},
		GetSubIDs: func(ctx context.Context, args ...string) ([]byte, error) {
			out, err := exec.CommandContext(ctx, "getsubids", args...).Output()
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				err = fmt.Errorf("getsubids: %w: %s", err, bytes.TrimSpace(failed.Stderr))
			}
			return out, err
		},
	}
}

// SubordinateIDs returns the subordinate ids of the user kubelet (/etc/subuid, /etc/subgid or nsswitch).
// They are zero if there are none. If the user exists, a failed lookup is an error: it may depend on a
// network that is down.
func SubordinateIDs(ctx context.Context, m Machine) (render.IDs, error) {
	if err := m.HasUser(kubelet); errors.As(err, new(user.UnknownUserError)) {
		return render.IDs{}, nil
	} else if err != nil {
		return render.IDs{}, fmt.Errorf("look for the user %s: %w", kubelet, err)
	}
	users, err := m.GetSubIDs(ctx, kubelet)
	if errors.Is(err, exec.ErrNotFound) {
		return render.IDs{}, nil
	}
	if err != nil {
		return render.IDs{}, fmt.Errorf("find the ids that the user %s has for others: %w", kubelet, err)
	}
	groups, err := m.GetSubIDs(ctx, "-g", kubelet)
	if err != nil {
		return render.IDs{}, fmt.Errorf("find the ids of groups that the user %s has for others: %w", kubelet, err)
	}
	if !bytes.Equal(users, groups) {
		return render.IDs{}, fmt.Errorf("the user %s has ids %q and ids of groups %q for others: they must be the same", kubelet, users, groups)
	}
	ids, err := parse(string(users))
	if err != nil {
		return render.IDs{}, fmt.Errorf("the ids that the user %s has for others: %w", kubelet, err)
	}
	return ids, nil
}

// parse parses the output of getsubids: "0: kubelet 65536 2147483648".
func parse(text string) (render.IDs, error) {
	text = strings.TrimSpace(text)
	words := strings.Fields(text)
	if text == "" || strings.Contains(text, "\n") {
		return render.IDs{}, fmt.Errorf("want one range, not %q", text)
	}
	if len(words) != 4 {
		return render.IDs{}, fmt.Errorf("%q is not a range", text)
	}
	first, err := strconv.ParseUint(words[2], 10, 32)
	count, err2 := strconv.ParseUint(words[3], 10, 32)
	if err := errors.Join(err, err2); err != nil {
		return render.IDs{}, fmt.Errorf("%q is not a range: %w", text, err)
	}
	switch {
	case first < DefaultCount || count < DefaultCount:
		return render.IDs{}, fmt.Errorf("%q: it must start at %d or later, and have as many ids or more", text, DefaultCount)
	case first%DefaultCount != 0 || count%DefaultCount != 0:
		return render.IDs{}, fmt.Errorf("%q: where it starts and how many ids it has must be a multiple of %d", text, DefaultCount)
	case first+count > 1<<32:
		return render.IDs{}, fmt.Errorf("%q: it must end before %d", text, uint64(1)<<32)
	}
	return render.IDs{First: uint32(first), Count: uint32(count)}, nil
}
