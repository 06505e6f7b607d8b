package nodeapi

import (
	"net/http"
	"slices"
)

// route is one path of the API.
type route struct {
	pattern string   // of http.ServeMux, without a method
	methods []string // none: GET
	// needs are subresources of the node: a client must have the right to one of them.
	needs []string
	// creates: the verb of the right is create, whatever the method: running a command is more
	// than reading, and a WebSocket always begins with GET.
	creates bool

	readOnly bool // also on the read-only port, which has no authentication
	debug    bool // only while debugging is enabled
	stream   bool // has no deadline, and counts against the limits of streams
	serve    func(http.ResponseWriter, *http.Request) error
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// routes are all paths. No entry, no answer.
func (a *API) routes() []route {
	both := []string{get, post}
	proxy, metrics := []string{"proxy"}, []string{"metrics"}
	pods := []string{"pods", "proxy"}
	health := []string{"healthz", "proxy"}
	config := []string{"configz", "proxy"}
	const container = "/{namespace}/{pod}/{container}"
	const containerOfUID = "/{namespace}/{pod}/{uid}/{container}"

	return []route{
		{pattern: "/healthz", needs: health, readOnly: true, serve: a.serveHealth},
		{pattern: "/healthz/{check}", needs: health, readOnly: true, serve: a.serveCheck},
		{pattern: "/pods", needs: pods, readOnly: true, serve: a.servePods},
		{pattern: "/pods/{$}", needs: pods, readOnly: true, serve: a.servePods},
		{pattern: "/stats/summary", methods: both, needs: []string{"stats"}, readOnly: true, serve: a.serveSummary},
		{pattern: "/metrics", needs: metrics, readOnly: true, serve: page(a.Metrics.Main)},
		{pattern: "/metrics/cadvisor", needs: metrics, readOnly: true, serve: page(a.Metrics.Cadvisor)},
		{pattern: "/metrics/resource", needs: metrics, readOnly: true, serve: page(a.Metrics.Resource)},
		{pattern: "/metrics/probes", needs: metrics, readOnly: true, serve: page(a.Metrics.Probes)},
		{pattern: "/metrics/slis", needs: metrics, readOnly: true, serve: page(a.Metrics.SLIs)},

		{pattern: "/run" + container, methods: []string{post}, needs: proxy, creates: true, debug: true, stream: true, serve: a.serveRun},
		{pattern: "/run" + containerOfUID, methods: []string{post}, needs: proxy, creates: true, debug: true, stream: true, serve: a.serveRun},
		{pattern: "/exec" + container, methods: both, needs: proxy, creates: true, debug: true, stream: true, serve: a.serveExec},
		{pattern: "/exec" + containerOfUID, methods: both, needs: proxy, creates: true, debug: true, stream: true, serve: a.serveExec},
		{pattern: "/attach" + container, methods: both, needs: proxy, creates: true, debug: true, stream: true, serve: a.serveAttach},
		{pattern: "/attach" + containerOfUID, methods: both, needs: proxy, creates: true, debug: true, stream: true, serve: a.serveAttach},
		{pattern: "/portForward/{namespace}/{pod}", methods: both, needs: proxy, creates: true, debug: true, stream: true, serve: a.servePortForward},
		{pattern: "/portForward/{namespace}/{pod}/{uid}", methods: both, needs: proxy, creates: true, debug: true, stream: true, serve: a.servePortForward},
		{pattern: "/containerLogs" + container, needs: proxy, debug: true, stream: true, serve: a.serveContainerLogs},
		{pattern: "/runningpods", needs: pods, debug: true, serve: a.serveRunningPods},
		{pattern: "/runningpods/{$}", needs: pods, debug: true, serve: a.serveRunningPods},
		{pattern: "/configz", needs: config, debug: true, serve: a.serveConfigz},
		{pattern: "/checkpoint" + container, methods: []string{post}, needs: []string{"checkpoint"}, debug: true, stream: true, serve: a.serveCheckpoint},
		{pattern: "/logs/", needs: []string{"log"}, debug: true, stream: true, serve: a.serveSystemLogs},
		{pattern: "/debug/pprof/", needs: proxy, debug: true, stream: true, serve: a.serveProfile},
		{pattern: "/debug/flags/v", methods: []string{http.MethodPut}, needs: proxy, debug: true, serve: a.serveVerbosity},
		{pattern: "/flagz", needs: config[:1], debug: true, serve: a.serveFlagz},
		{pattern: "/statusz", needs: []string{"statusz"}, debug: true, serve: a.serveStatusz},
	}
}

// Filters of the routes of a server.
func allRoutes(route) bool        { return true }
func readOnlyRoutes(r route) bool { return r.readOnly }
func healthRoutes(r route) bool   { return r.pattern == "/healthz" || r.pattern == "/healthz/{check}" }

// verbs are the RBAC verbs of HTTP methods.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// verb returns the RBAC verb that a request needs.
func (r route) verb(method string) string {
	if r.creates {
		return "create"
	}
	return verbs[method]
}

func (r route) allows(method string) bool {
	if len(r.methods) == 0 {
		return method == get || method == http.MethodHead
	}
	return slices.Contains(r.methods, method)
}

// mux serves the chosen routes without authorization. server is its name in metrics.
func (a *API) mux(server string, chosen func(route) bool) http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		if chosen(r) {
			mux.Handle(r.pattern, a.counted(server, r, a.serve(r)))
		}
	}
	return mux
}

// guardedMux serves all routes to authorized users. A path that does not exist needs the right to
// all others, so that a client without rights can't find out which paths exist.
func (a *API) guardedMux() http.Handler {
	mux := http.NewServeMux()
	unknown := route{pattern: "/", methods: []string{get, http.MethodHead, post, http.MethodPut, http.MethodPatch, http.MethodDelete}, needs: []string{"proxy"}, serve: notFound}
	for _, r := range append(a.routes(), unknown) {
		mux.Handle(r.pattern, a.counted("readwrite", r, a.access.authorized(r, a.serve(r))))
	}
	return a.access.authenticated(mux)
}

// counted wraps a route with Config.Count.
func (a *API) counted(server string, r route, next http.Handler) http.Handler {
	if a.Count == nil {
		return next
	}
	return a.Count(server, r.pattern, r.stream, next)
}

// serve returns the handler of a route, with its checks and limits.
func (a *API) serve(r route) http.HandlerFunc {
	handle := a.answer(r.serve)
	if r.stream {
		handle = a.stream(r.serve)
	}
	return func(w http.ResponseWriter, req *http.Request) {
		switch {
		case r.debug && !a.Enabled.Debugging:
			http.Error(w, "Debug endpoints are disabled.", http.StatusMethodNotAllowed)
		case !r.allows(req.Method):
			fail(w, problemf(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
		default:
			handle(w, req)
		}
	}
}

func notFound(http.ResponseWriter, *http.Request) error {
	return problemf(http.StatusNotFound, "404: Page Not Found")
}

// page returns the handler of a route for an http.Handler.
func page(h http.Handler) func(http.ResponseWriter, *http.Request) error {
	if h == nil {
		return notFound
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
