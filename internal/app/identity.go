package app

import (
	"context"
	"fmt"
	"os"
	"slices"

	"berth/internal/host/selinux"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/render"
)

// What the runtime and the kernel can tell about who the processes of pods are.

// canMapUsers tells whether a handler can run a pod with users of its own.
func canMapUsers(handlers []cri.Handler, name string) bool {
	return slices.ContainsFunc(handlers, func(h cri.Handler) bool { return h.Name == name && h.UserNamespaces })
}

// imageUsers finds out who images want their processes to be.
func imageUsers(client *cri.Client) func(context.Context, string) (render.User, error) {
	return func(ctx context.Context, ref string) (render.User, error) {
		images, err := client.Images(ctx)
		if err != nil {
			return render.User{}, err
		}
		for _, i := range images {
			if i.ID == ref {
				return render.User{UID: i.UID, Name: i.User}, nil
			}
		}
		return render.User{}, fmt.Errorf("the runtime has no image %s any more", ref)
	}
}

// hasLabels tells whether containers get SELinux labels. The runtime is asked, too: ours
// may have been started before the machine could label them.
func hasLabels(ctx context.Context, client *cri.Client) (bool, error) {
	if can := selinux.CanLabel() == nil; !can {
		return false, nil
	}
	return client.Labels(ctx)
}

// hasAppArmor tells whether the kernel confines processes by AppArmor.
func hasAppArmor() bool {
	text, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && len(text) > 0 && text[0] == 'Y'
}
