package features

import (
	"context"
	"errors"
	"time"

	"berth/internal/runtime/cri"
)

// askTimeout is how long the runtime may take to answer one question.
const askTimeout = 5 * time.Second

// CheckRuntime asks once whether the runtime at an endpoint can make containers. Its network
// may come later: what brings it may be a pod.
func CheckRuntime(ctx context.Context, endpoint string) error {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return err
	}
	info, err := client.Info(ctx)
	return errors.Join(err, info.Runtime, client.Close())
}

// CheckReady asks once whether the runtime at an endpoint can run pods.
func CheckReady(ctx context.Context, endpoint string) error {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return err
	}
	return errors.Join(client.Ready(ctx), client.Close())
}

// CheckAnswers asks once whether there is a runtime at an endpoint that answers, for as long
// as ctx allows. Whatever it answers will do.
func CheckAnswers(ctx context.Context, endpoint string) error {
	const limit = time.Hour // ctx ends long before
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: limit})
	if err != nil {
		return err
	}
	_, err = client.Version(ctx)
	return errors.Join(err, client.Close())
}

// HasImage asks once whether the runtime at an endpoint knows an image.
func HasImage(ctx context.Context, endpoint, image string) (bool, error) {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return false, err
	}
	ref, err := client.ImageRef(ctx, image)
	return ref != "", errors.Join(err, client.Close())
}
