package events

import (
	"regexp"
	"strings"
)

// messageLimit is the maximum length of an Event's message in bytes, as in the API server.
const messageLimit = 1024

// secrets matches tokens, keys and passwords in URLs. Our messages should not contain them, but errors from
// other components may.
var secrets = regexp.MustCompile(strings.Join([]string{
	`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?`,
	`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`,
	`(?i)\bbearer\s+[A-Za-z0-9._~+/-]{8,}=*`,
	`(?i)://[^/\s:@]+:[^/\s@]+@`,
}, "|"))

// scrub removes text that looks like a secret and shortens the message to the limit.
func scrub(message string) string {
	message = strings.ToValidUTF8(message, "�")
	message = secrets.ReplaceAllString(message, "[redacted]")
	if len(message) <= messageLimit {
		return message
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(message[:messageLimit-len(ellipsis)], "") + ellipsis
}
