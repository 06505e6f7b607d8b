package features

import (
	"context"
	"errors"
	"time"

	"berth/internal/runtime/cri"
)

// askTimeout bounds one call to the runtime.
const askTimeout = 5 * time.Second

// CheckRuntime returns an error unless the runtime at an endpoint can make containers. Its network
// may become ready later: a pod may set it up.
func CheckRuntime(ctx context.Context, endpoint string) error {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return err
	}
	info, err := client.Info(ctx)
	return errors.Join(err, info.Runtime, client.Close())
}

// CheckReady returns an error unless the runtime at an endpoint can run pods.
func CheckReady(ctx context.Context, endpoint string) error {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return err
	}
	return errors.Join(client.Ready(ctx), client.Close())
}

// CheckAnswers returns an error unless a runtime at the endpoint answers before ctx ends, with
// whatever answer.
func CheckAnswers(ctx context.Context, endpoint string) error {
	const limit = time.Hour // ctx ends long before
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: limit})
	if err != nil {
		return err
	}
	_, err = client.Version(ctx)
	return errors.Join(err, client.Close())
}

// HasImage reports whether the runtime at an endpoint has an image.
func HasImage(ctx context.Context, endpoint, image string) (bool, error) {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return false, err
	}
	ref, err := client.ImageRef(ctx, image)
	return ref != "", errors.Join(err, client.Close())
}
