package requestqueue

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An entry is the place of a request in the order: by creation, then by UID.
type entry struct {
	created int64
	uid     types.UID
	key     types.NamespacedName
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.uid, b.uid))
}

// Compare orders requests as lists do: by creation, then by UID.
func Compare(a, b *fleet.ClusterRegistration) int { return compareEntries(entryOf(a), entryOf(b)) }

// A list holds the entries of one client or token in their order. The first of them have a place.
type list struct {
	limit   int
	entries []entry
}

func (l *list) rank(t entry) (rank int, found bool) {
	return slices.BinarySearchFunc(l.entries, t, compareEntries)
}

func (l *list) has(t entry) bool {
	rank, found := l.rank(t)
	return found && rank < l.limit
}

// add adds an entry. It returns the entry that loses its place, if any.
func (l *list) add(t entry) (out []entry) {
	rank, found := l.rank(t)
	if found {
		return nil
	}
	l.entries = slices.Insert(l.entries, rank, t)
	if rank < l.limit && len(l.entries) > l.limit {
		return l.entries[l.limit : l.limit+1 : l.limit+1]
	}
	return nil
}

// drop removes an entry. It returns the entry that gets a place, if any.
func (l *list) drop(t entry) (in []entry) {
	rank, found := l.rank(t)
	if !found {
		return nil
	}
	l.entries = slices.Delete(l.entries, rank, rank+1)
	if rank < l.limit && len(l.entries) >= l.limit {
		return l.entries[l.limit-1 : l.limit : l.limit]
	}
	return nil
}

// member describes one request. Its client and token are "" if it takes no place. The client is counted in the
// whole workspace, because a request only claims its token. The token is the value of grant.CreatedWith.
type member struct {
	entry
	client, token string
	inProgress    bool
}

func entryOf(r *fleet.ClusterRegistration) entry {
	return entry{created: r.CreationTimestamp.Unix(), uid: r.UID, key: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}
}

func memberOf(r *fleet.ClusterRegistration, token string) member {
	s := member{entry: entryOf(r)}
	if requests.Counts(r) {
		s.token, s.client, s.inProgress = r.Namespace+"/"+token, r.Namespace+"/"+r.Spec.ClientID, requests.InProgress(r)
		if requests.IsRecovery(r) { // no holder of a token takes the places of the right agent
			s.client = "recovery:" + s.client
		}
	}
	return s
}

// Queue knows which requests have a place. Create it with New. It is safe for concurrent use.
type Queue struct {
	mu              sync.Mutex
	members         map[types.NamespacedName]member
	clients, tokens map[string]*list
}

// New returns an empty Queue.
func New() *Queue {
	return &Queue{members: map[types.NamespacedName]member{}, clients: map[string]*list{}, tokens: map[string]*list{}}
}

// Put records the current state of a request and its token. It returns the requests to enqueue.
func (q *Queue) Put(r *fleet.ClusterRegistration, token string) (wake []types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := memberOf(r, token)
	before, known := q.members[now.key]
	switch {
	case before == now && known:
		return nil
	case known && before.client == now.client && before.token == now.token && before.entry == now.entry:
		q.members[now.key] = now
		if now.client != "" && q.clients[now.client].has(now.entry) {
			wake = q.addToToken(now)
		}
		return wake
	}
	wake = q.leave(before)
	q.members[now.key] = now
	return append(wake, q.enter(now)...)
}

// Drop removes a request that is gone. It returns the requests to enqueue.
func (q *Queue) Drop(key types.NamespacedName) []types.NamespacedName {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.members[key]
	delete(q.members, key)
	return q.leave(before)
}

// WaitsIn returns the list in which a request has no place, if any.
func (q *Queue) WaitsIn(r *fleet.ClusterRegistration) grant.Queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.members[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
	switch {
	case s.client == "" || r.Status.Granted:
		return grant.NoQueue
	case !q.clients[s.client].has(s.entry):
		return grant.QueueOfClient
	case s.inProgress && !q.tokens[s.token].has(s.entry):
		return grant.QueueOfToken
	}
	return grant.NoQueue
}

// Crowded reports whether the client of a request has more requests than places.
func (q *Queue) Crowded(r *fleet.ClusterRegistration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	clients := q.clients[q.members[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}].client]
	return clients != nil && len(clients.entries) > clients.limit
}

func (q *Queue) enter(s member) (wake []types.NamespacedName) {
	if s.client == "" {
		return nil
	}
	clients := q.clients[s.client]
	if clients == nil {
		clients = &list{limit: grant.OpenPerClient}
		q.clients[s.client] = clients
	}
	for _, out := range clients.add(s.entry) {
		wake = append(wake, q.removeFromToken(q.members[out.key])...)
	}
	if clients.has(s.entry) {
		wake = append(wake, q.addToToken(s)...)
	}
	if len(clients.entries) == clients.limit+1 { // requests granted long ago and never used give way
		wake = append(wake, keysOf(clients.entries[:clients.limit])...)
	}
	return wake
}

func (q *Queue) leave(s member) (wake []types.NamespacedName) {
	clients := q.clients[s.client]
	if clients == nil {
		return nil
	}
	in := clients.drop(s.entry)
	wake = append(q.removeFromToken(s), keysOf(in)...)
	for _, one := range in {
		wake = append(wake, q.addToToken(q.members[one.key])...)
	}
	if len(clients.entries) == 0 {
		delete(q.clients, s.client)
	}
	return wake
}

// addToToken puts a request that has a place of its client into the list of its token while it is in progress.
func (q *Queue) addToToken(s member) []types.NamespacedName {
	if !s.inProgress {
		return q.removeFromToken(s)
	}
	tokens := q.tokens[s.token]
	if tokens == nil {
		tokens = &list{limit: grant.OpenPerToken}
		q.tokens[s.token] = tokens
	}
	tokens.add(s.entry)
	return nil
}

func (q *Queue) removeFromToken(s member) []types.NamespacedName {
	tokens := q.tokens[s.token]
	if tokens == nil {
		return nil
	}
	wake := keysOf(tokens.drop(s.entry))
	if len(tokens.entries) == 0 {
		delete(q.tokens, s.token)
	}
	return wake
}

func keysOf(entries []entry) (keys []types.NamespacedName) {
	for _, one := range entries {
		keys = append(keys, one.key)
	}
	return keys
}
