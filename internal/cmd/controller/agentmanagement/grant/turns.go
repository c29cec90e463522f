package grant

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A turn is the place of a request in the order: by creation, then by UID.
type turn struct {
	created int64
	uid     types.UID
	key     types.NamespacedName
}

func compareTurns(a, b turn) int {
	return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.uid, b.uid))
}

// A line holds the turns of one client or token in their order. The first of them have a place.
type line struct {
	places int
	turns  []turn
}

func (l *line) rank(t turn) (rank int, found bool) {
	return slices.BinarySearchFunc(l.turns, t, compareTurns)
}

func (l *line) has(t turn) bool {
	rank, found := l.rank(t)
	return found && rank < l.places
}

// add adds a turn. It returns the turn that loses its place, if any.
func (l *line) add(t turn) (out []turn) {
	rank, found := l.rank(t)
	if found {
		return nil
	}
	l.turns = slices.Insert(l.turns, rank, t)
	if rank < l.places && len(l.turns) > l.places {
		return l.turns[l.places : l.places+1 : l.places+1]
	}
	return nil
}

// drop removes a turn. It returns the turn that gets a place, if any.
func (l *line) drop(t turn) (in []turn) {
	rank, found := l.rank(t)
	if !found {
		return nil
	}
	l.turns = slices.Delete(l.turns, rank, rank+1)
	if rank < l.places && len(l.turns) >= l.places {
		return l.turns[l.places-1 : l.places : l.places]
	}
	return nil
}

// standing describes one request. Its client and token are "" if it takes no place. The client is counted in the
// whole workspace, because a request only claims its token. The token is the value of grant.CreatedWith.
type standing struct {
	turn
	client, token string
	inProgress    bool
}

func turnOf(r *fleet.ClusterRegistration) turn {
	return turn{created: r.CreationTimestamp.Unix(), uid: r.UID, key: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}
}

func standingOf(r *fleet.ClusterRegistration, token string) standing {
	s := standing{turn: turnOf(r)}
	if grant.Counts(r) {
		s.token, s.client, s.inProgress = r.Namespace+"/"+token, r.Namespace+"/"+r.Spec.ClientID, grant.InProgress(r)
	}
	return s
}

// turns limits how many requests of one client, and of one token, are processed at a time. The cost of a decision
// does not grow with the number of requests.
//
//	request ─► line of its client ─(has a place, in progress)─► line of its token ─(has a place)─► Grant
//
// So a client that creates too many requests takes few places of its token.
type turns struct {
	mu              sync.Mutex
	standings       map[types.NamespacedName]standing
	clients, tokens map[string]*line
}

func newTurns() *turns {
	return &turns{standings: map[types.NamespacedName]standing{}, clients: map[string]*line{}, tokens: map[string]*line{}}
}

// put records the current state of a request and its token. It returns the requests to enqueue.
func (t *turns) put(r *fleet.ClusterRegistration, token string) (wake []types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := standingOf(r, token)
	before, known := t.standings[now.key]
	switch {
	case before == now && known:
		return nil
	case known && before.client == now.client && before.token == now.token && before.turn == now.turn:
		t.standings[now.key] = now
		if now.client != "" && t.clients[now.client].has(now.turn) {
			wake = t.queue(now)
		}
		return wake
	}
	wake = t.leave(before)
	t.standings[now.key] = now
	return append(wake, t.enter(now)...)
}

// drop removes a request that is gone. It returns the requests to enqueue.
func (t *turns) drop(key types.NamespacedName) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.standings[key]
	delete(t.standings, key)
	return t.leave(before)
}

// waits reports whether a request has no place, and whether its client has too many requests.
func (t *turns) waits(r *fleet.ClusterRegistration) (waits, ofClient bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.standings[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
	switch {
	case s.client == "" || r.Status.Granted:
		return false, false
	case !t.clients[s.client].has(s.turn):
		return true, true
	}
	return s.inProgress && !t.tokens[s.token].has(s.turn), false
}

// crowded reports whether the client of a request has more requests than places.
func (t *turns) crowded(r *fleet.ClusterRegistration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	clients := t.clients[t.standings[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}].client]
	return clients != nil && len(clients.turns) > clients.places
}

func (t *turns) enter(s standing) (wake []types.NamespacedName) {
	if s.client == "" {
		return nil
	}
	clients := t.clients[s.client]
	if clients == nil {
		clients = &line{places: grant.OpenPerClient}
		t.clients[s.client] = clients
	}
	for _, out := range clients.add(s.turn) {
		wake = append(wake, t.unqueue(t.standings[out.key])...)
	}
	if clients.has(s.turn) {
		wake = append(wake, t.queue(s)...)
	}
	if len(clients.turns) == clients.places+1 { // requests granted long ago and never used give way
		wake = append(wake, keysOf(clients.turns[:clients.places])...)
	}
	return wake
}

func (t *turns) leave(s standing) (wake []types.NamespacedName) {
	clients := t.clients[s.client]
	if clients == nil {
		return nil
	}
	in := clients.drop(s.turn)
	wake = append(t.unqueue(s), keysOf(in)...)
	for _, one := range in {
		wake = append(wake, t.queue(t.standings[one.key])...)
	}
	if len(clients.turns) == 0 {
		delete(t.clients, s.client)
	}
	return wake
}

// queue puts a request that has a place of its client into the line of its token while it is in progress.
func (t *turns) queue(s standing) []types.NamespacedName {
	if !s.inProgress {
		return t.unqueue(s)
	}
	tokens := t.tokens[s.token]
	if tokens == nil {
		tokens = &line{places: grant.OpenPerToken}
		t.tokens[s.token] = tokens
	}
	tokens.add(s.turn)
	return nil
}

func (t *turns) unqueue(s standing) []types.NamespacedName {
	tokens := t.tokens[s.token]
	if tokens == nil {
		return nil
	}
	wake := keysOf(tokens.drop(s.turn))
	if len(tokens.turns) == 0 {
		delete(t.tokens, s.token)
	}
	return wake
}

func keysOf(turns []turn) (keys []types.NamespacedName) {
	for _, one := range turns {
		keys = append(keys, one.key)
	}
	return keys
}
