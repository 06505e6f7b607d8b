package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/runtime/keyring"
)

// Image is an image in the store of the runtime.
type Image struct {
	ID      string
	Tags    []string // sorted
	Digests []string // sorted
	Size    int64    // bytes
	Pinned  bool     // it must not be removed

	// UID or User is the user of the image's config: a number, or a name. A nil UID and an
	// empty User mean root.
	UID  *int64
	User string
}

// Images lists all images, by ID.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.image.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	out := make([]Image, 0, len(r.GetImages()))
	for _, i := range r.GetImages() {
		image := Image{
			ID:      i.GetId(),
			Tags:    slices.Sorted(slices.Values(i.GetRepoTags())),
			Digests: slices.Sorted(slices.Values(i.GetRepoDigests())),
			Size:    int64(i.GetSize()),
			Pinned:  i.GetPinned(),
			User:    i.GetUsername(),
		}
		if uid := i.GetUid(); uid != nil {
			image.UID = new(uid.GetValue())
		}
		out = append(out, image)
	}
	// Runtimes list images in any order; sorted lists can be compared.
	slices.SortFunc(out, func(a, b Image) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// PullImage pulls an image and returns the runtime's reference to it. It has no deadline of
// its own, since images are large: it is given up when the runtime does not answer a
// Version call either.
func (c *Client) PullImage(ctx context.Context, image string, show keyring.Credential) (string, error) {
	request := &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}}
	if !show.Anonymous() {
		request.Auth = &runtimeapi.AuthConfig{
			Username: show.Username, Password: show.Password,
			IdentityToken: show.IdentityToken, RegistryToken: show.RegistryToken,
		}
	}
	call, cancel := c.whileAnswering(ctx)
	defer cancel()
	r, err := c.image.PullImage(call, request)
	if err != nil && call.Err() != nil && ctx.Err() == nil {
		err = context.Cause(call)
	}
	if err != nil {
		return "", fmt.Errorf("pull image %s: %w", image, err)
	}
	return r.GetImageRef(), nil
}

// GaveUp reports whether the runtime canceled a pull by itself: containerd does that when no
// data come from the registry for long.
func GaveUp(err error) bool { return code(err) == codes.Canceled }

// ImageSize returns the size of an image in bytes, or 0 if the runtime does not have it.
func (c *Client) ImageSize(ctx context.Context, image string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.image.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		return 0, fmt.Errorf("look for image %s: %w", image, err)
	}
	return r.GetImage().GetSize(), nil
}

// RemoveImage removes an image and all of its names. An image that does not exist is no error.
func (c *Client) RemoveImage(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, err := c.image.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	return unlessGone(err, "remove image", image)
}

// Filesystem is how much of a file system is used for one purpose. A nil number is not
// known.
type Filesystem struct {
	At         time.Time // when it was measured
	Mountpoint string
	Used       *uint64 // bytes
	Inodes     *uint64 // used
}

// Filesystems are the file systems on which the runtime keeps images, and those with the
// writable layers of containers. They may be the same.
type Filesystems struct{ Images, Containers []Filesystem }

// Filesystems asks the runtime for its file systems and their usage (ImageFsInfo).
func (c *Client) Filesystems(ctx context.Context) (Filesystems, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.image.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return Filesystems{}, fmt.Errorf("ask the runtime for its file systems: %w", err)
	}
	var out Filesystems
	for _, f := range r.GetImageFilesystems() {
		out.Images = append(out.Images, filesystem(f))
	}
	for _, f := range r.GetContainerFilesystems() {
		out.Containers = append(out.Containers, filesystem(f))
	}
	return out, nil
}

// ImageDir asks the runtime for the directory in which it keeps images.
func (c *Client) ImageDir(ctx context.Context) (string, error) {
	where, err := c.Filesystems(ctx)
	if err != nil {
		return "", err
	}
	if len(where.Images) == 0 || where.Images[0].Mountpoint == "" {
		return "", errors.New("the runtime does not say where it keeps images")
	}
	return where.Images[0].Mountpoint, nil
}

func filesystem(f *runtimeapi.FilesystemUsage) Filesystem {
	return Filesystem{
		At: timeOf(f.GetTimestamp()), Mountpoint: f.GetFsId().GetMountpoint(),
		Used: value(f.GetUsedBytes()), Inodes: value(f.GetInodesUsed()),
	}
}

// value returns a number, or nil if the runtime did not measure it.
func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}
