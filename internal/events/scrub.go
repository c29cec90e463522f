package events

import (
	"regexp"
	"strings"
)

// messageLimit is how long an Event's message may be, in bytes; the API server takes no more.
const messageLimit = 1024

// secrets are what tokens, keys and passwords in addresses look like. Who tells of an object should not name them;
// an error of somebody else's may.
var secrets = regexp.MustCompile(strings.Join([]string{
	`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?`,
	`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`,
	`(?i)\bbearer\s+[A-Za-z0-9._~+/-]{8,}=*`,
	`(?i)://[^/\s:@]+:[^/\s@]+@`,
}, "|"))

// scrub is a message without what looks like a secret, and not too long.
func scrub(message string) string {
	message = strings.ToValidUTF8(message, "�")
	message = secrets.ReplaceAllString(message, "[redacted]")
	if len(message) <= messageLimit {
		return message
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(message[:messageLimit-len(ellipsis)], "") + ellipsis
}
