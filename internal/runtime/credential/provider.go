package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1"
	plugin "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"berth/internal/host/proc"
	"berth/internal/runtime/keyring"
)

const (
	// execTimeout is how long a plugin may take to answer.
	execTimeout = time.Minute
	// pipeTimeout is for what a plugin started, and left with its output open.
	pipeTimeout = time.Second
	// maxAnswer and maxComplaint are how much of its output is read.
	maxAnswer    = 1 << 20
	maxComplaint = 1 << 10
)

// provider is one plugin.
type provider struct {
	kubeletconfig.CredentialProvider
	program string
	timeout time.Duration // how long it may take to answer
	answers *answers
	onRun   func(plugin string, took time.Duration, err error) // may be nil
}

func newProvider(p kubeletconfig.CredentialProvider, program string, onRun func(plugin string, took time.Duration, err error)) *provider {
	return &provider{CredentialProvider: p, program: program, timeout: execTimeout, answers: newAnswers(), onRun: onRun}
}

func (p *provider) isFor(repository string) bool {
	for _, pattern := range p.MatchImages {
		if keyring.Match(pattern, repository) {
			return true
		}
	}
	return false
}

// ask returns the plugin's credentials for a repository and an identity, from the cache or by
// running the plugin.
func (p *provider) ask(ctx context.Context, repository string, id identity) (keyring.Ring, error) {
	q := question{repository: repository}
	if p.TokenAttributes != nil {
		q.who = id.key(p.TokenAttributes.CacheType)
	}
	return p.answers.get(ctx, q, func() answer { return p.answer(ctx, repository, id) })
}

// answer runs the plugin, and returns its answer with the cache key type and the expiry.
func (p *provider) answer(ctx context.Context, repository string, id identity) answer {
	began := time.Now()
	r, err := p.exec(ctx, repository, id)
	if p.onRun != nil {
		p.onRun(p.Name, time.Since(began), err)
	}
	if err != nil {
		return answer{err: err}
	}
	a := answer{kind: r.CacheKeyType, until: time.Now().Add(p.DefaultCacheDuration.Duration)}
	if r.CacheDuration != nil {
		a.until = time.Now().Add(r.CacheDuration.Duration)
	}
	for pattern, auth := range r.Auth {
		if id.token != "" && auth.Password == id.token && p.TokenAttributes.CacheType != kubeletconfig.TokenServiceAccountTokenCacheType {
			return answer{err: errors.New("it answers with the token that it was given, which is good for one pod only: its tokenAttributes need cacheType Token")}
		}
		a.ring = append(a.ring, keyring.Entry{
			Pattern:    pattern,
			Credential: keyring.Credential{Username: auth.Username, Password: auth.Password, Server: keyring.NormalizePattern(pattern), Account: id.account},
		})
	}
	return a
}

// silentError is the error of a plugin that does not answer.
type silentError struct{ after time.Duration }

func (e silentError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

// exec runs the plugin: a request on its standard input, the answer on its output.
// Its standard error goes into the error of exec; its answer never does.
func (p *provider) exec(ctx context.Context, repository string, id identity) (*plugin.CredentialProviderResponse, error) {
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: plugin.SchemeGroupVersion.String(), Kind: kind}
	}
	request, err := json.Marshal(plugin.CredentialProviderRequest{
		TypeMeta: meta("CredentialProviderRequest"), Image: repository,
		ServiceAccountToken: id.token, ServiceAccountAnnotations: id.annotations,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	out, complaints := &bounded{most: maxAnswer}, &bounded{most: maxComplaint}
	cmd := exec.CommandContext(ctx, p.program, p.Args...) // the administrator names the program
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), out, complaints
	cmd.WaitDelay = pipeTimeout
	cmd.Env = os.Environ()
	for _, e := range p.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	proc.SetProcessGroup(cmd)
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrWaitDelay) {
			_ = proc.KillGroup(cmd) // they have its output open, so there are some
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = silentError{p.timeout}
		}
		if text := strings.TrimSpace(complaints.text.String()); text != "" {
			err = fmt.Errorf("%w: %q", err, text)
		}
		return nil, err
	}
	if out.over {
		return nil, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	}
	var r plugin.CredentialProviderResponse
	if err := json.Unmarshal(out.text.Bytes(), &r); err != nil {
		return nil, errors.New("its answer is not JSON")
	}
	if want := meta("CredentialProviderResponse"); r.TypeMeta != want {
		return nil, fmt.Errorf("its answer is %q, want %s %s", r.APIVersion+" "+r.Kind, want.APIVersion, want.Kind)
	}
	switch r.CacheKeyType {
	case plugin.ImagePluginCacheKeyType, plugin.RegistryPluginCacheKeyType, plugin.GlobalPluginCacheKeyType:
	default:
		return nil, fmt.Errorf("its answer has cacheKeyType %q, want Image, Registry or Global", r.CacheKeyType)
	}
	return &r, nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	text bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(text []byte) (int, error) {
	room := max(b.most-b.text.Len(), 0)
	b.over = b.over || len(text) > room
	b.text.Write(text[:min(len(text), room)])
	return len(text), nil
}
