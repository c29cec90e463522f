package swarm

import (
	"maps"
	"sync"
)

// Request is a kind of request that an agent sends.
type Request struct {
	// Identity is "import" or "request".
	Identity string
	// Verb and Resource are the API server's terms: "patch", "clusters/status".
	Verb, Resource string
	// Code is the response's code. Zero means that there was no response.
	Code int
}

// counts counts the requests of all agents.
type counts struct {
	mu   sync.Mutex
	sent map[Request]int
}

func (c *counts) add(sent call, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = map[Request]int{}
	}
	c.sent[Request{Identity: sent.as, Verb: sent.verb, Resource: sent.resource, Code: code}]++
}

func (c *counts) all() map[Request]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.sent)
}
