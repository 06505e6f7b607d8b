package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/render"
)

// Mounts returns the mounts of a container of p from the pod's volumes, after Setup. env are the
// container's variables, for subPathExpr.
func (m *Manager) Mounts(ctx context.Context, p *v1.Pod, c *v1.Container, env map[string]string) ([]render.Mount, error) {
	if len(c.VolumeMounts) == 0 {
		return nil, nil
	}
	dir, err := m.podDir(p.UID)
	if err != nil {
		return nil, err
	}
	if err := checkName(c.Name); err != nil {
		return nil, fmt.Errorf("the name of a container can't name a directory: %w", err)
	}
	return guarded(ctx, m.guard, p.UID, func(ctx context.Context, t *task) ([]render.Mount, error) {
		out := make([]render.Mount, 0, len(c.VolumeMounts))
		for i := range c.VolumeMounts {
			vm := &c.VolumeMounts[i]
			t.setStep(fmt.Sprintf("mount volume %q for container %q", vm.Name, c.Name))
			one, err := m.mount(ctx, t, p, vm, env, filepath.Join(dir, subPathsDir, vm.Name, c.Name, strconv.Itoa(i)))
			if err != nil {
				return nil, &Error{Volume: vm.Name, Err: err}
			}
			out = append(out, one)
		}
		return out, nil
	})
}

var errNotSetUp = errors.New("it is not set up: the pod does not have it, or it failed")

// mount resolves one entry of volumeMounts. A subPath is mounted on target.
func (m *Manager) mount(ctx context.Context, t *task, p *v1.Pod, vm *v1.VolumeMount, env map[string]string, target string) (render.Mount, error) {
	at, ok := m.loadPlace(p.UID, vm.Name)
	if !ok {
		return render.Mount{}, errNotSetUp
	}
	if at.block {
		return render.Mount{}, errors.New("it is a device (volumeMode Block), which can't be mounted: name it in volumeDevices")
	}
	out := render.Mount{
		HostPath:       at.path,
		ContainerPath:  filepath.Join("/", vm.MountPath),
		ReadOnly:       at.readOnly || vm.ReadOnly,
		Propagation:    v1.MountPropagationNone,
		SELinuxRelabel: at.relabel,
	}
	if vm.MountPropagation != nil {
		out.Propagation = *vm.MountPropagation
	}
	var err error
	if out.RecursiveReadOnly, err = m.recursiveReadOnly(p, vm); err != nil {
		return render.Mount{}, err
	}
	sub, err := subPathOf(vm, env)
	if at.image != "" {
		out.HostPath, out.Image, out.SubPath = "", at.image, sub // the runtime resolves the subPath
		return out, err
	}
	if err != nil {
		return out, err
	}
	t.setStep(fmt.Sprintf("mount volume %q: look at %s", vm.Name, filepath.Join(at.path, sub)))
	if sub == "" {
		_, _ = os.Stat(at.path) // only to hang here and not in the runtime, which reports all other errors
		return out, nil
	}
	if err := m.subPath(ctx, at, sub, target); err != nil {
		return render.Mount{}, fmt.Errorf("subPath %q: %w", sub, err)
	}
	out.HostPath = target
	return out, nil
}

func (m *Manager) recursiveReadOnly(p *v1.Pod, vm *v1.VolumeMount) (bool, error) {
	if vm.RecursiveReadOnly == nil || *vm.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	possible := m.cfg.RecursiveReadOnly(p)
	switch *vm.RecursiveReadOnly {
	case v1.RecursiveReadOnlyIfPossible:
		return possible && vm.ReadOnly, nil
	case v1.RecursiveReadOnlyEnabled:
		if !vm.ReadOnly {
			return false, errors.New("recursiveReadOnly Enabled needs readOnly: true")
		}
		if !possible {
			return false, errors.New("recursiveReadOnly Enabled: the runtime of this pod can't do that")
		}
		return true, nil
	default:
		return false, fmt.Errorf("recursiveReadOnly %q is not known", *vm.RecursiveReadOnly)
	}
}

// subPathOf returns the subPath of a mount, or "" for the whole volume.
func subPathOf(vm *v1.VolumeMount, env map[string]string) (string, error) {
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		var err error
		if sub, err = expand(vm.SubPathExpr, env); err != nil {
			return "", fmt.Errorf("subPathExpr %q: %w", vm.SubPathExpr, err)
		}
	}
	if vm.SubPath == "" && vm.SubPathExpr == "" {
		return "", nil
	}
	clean, err := cleanPath(sub)
	switch {
	case err != nil:
		return "", fmt.Errorf("subPath %q: %w", sub, err)
	case clean == ".":
		return "", nil
	default:
		return clean, nil
	}
}

// expand replaces $(NAME) by the variable; $$ is a dollar sign. Unlike in a command, an unknown name
// is an error, since the path would be a wrong one.
func expand(expr string, env map[string]string) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(expr, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			expr = after[1:]
		case strings.HasPrefix(after, "(") && strings.Contains(after, ")"):
			name, rest, _ := strings.Cut(after[1:], ")")
			value, ok := env[name]
			if !ok {
				return "", missingf("there is no variable %q", name)
			}
			out.WriteString(value)
			expr = rest
		default:
			out.WriteByte('$')
			expr = after
		}
		if out.Len() > maxPath {
			return "", fmt.Errorf("it is longer than %d bytes", maxPath)
		}
	}
}
