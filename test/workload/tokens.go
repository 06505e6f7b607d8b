package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// watchTokens notes each token that appears in one of the files: the time in
// nanoseconds, and what the token says of itself. It can't be used without its
// signature, which is not printed.
func watchTokens(ctx context.Context, paths []string) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for last := map[string]string{}; ; {
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // its directory was replaced while it was looked for
			}
			if err != nil {
				return err
			}
			token := string(text)
			if token == last[path] {
				continue
			}
			read := time.Now()
			claims, err := claimsOf(token)
			if err != nil {
				return fmt.Errorf("read the token in %s: %w", path, err)
			}
			fmt.Println(read.UnixNano(), claims)
			last[path] = token
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// claimsOf is the JSON in the middle of a token.
func claimsOf(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("it has %d parts", len(parts))
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	return string(claims), err
}
