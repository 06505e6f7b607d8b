package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// moody answers as it feels. It does not feel well before that time has passed.
func moody(ctx context.Context, address, after string) error {
	wait, err := time.ParseDuration(after)
	if err != nil {
		return err
	}
	var sick atomic.Bool
	sick.Store(wait > 0)
	time.AfterFunc(wait, func() { sick.Store(false) })
	mux := http.NewServeMux()
	mux.HandleFunc("/sick", func(http.ResponseWriter, *http.Request) { sick.Store(true) })
	mux.HandleFunc("/well", func(http.ResponseWriter, *http.Request) { sick.Store(false) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			http.Error(w, "not well", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ask exits with a code that says what the answer was.
func ask(url string) (int, error) {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		fmt.Println("the answer is", answer.Status)
		return 1, nil
	}
	return 0, nil
}
