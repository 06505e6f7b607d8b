package main

import "context"

// spin works for nothing.
//
//nolint:unparam // all modes return an error
func spin(ctx context.Context) error {
	for ctx.Err() == nil {
		for n := range 1 << 20 {
			_ = n
		}
	}
	return nil
}
