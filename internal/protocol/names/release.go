package names

import (
	"crypto/md5" //nolint:gosec // not a secret: by contract, release names end in MD5 digits
	"encoding/hex"
	"regexp"
	"strings"
)

// releaseLimit is the maximum length of a Helm release name.
const releaseLimit = 53

var (
	upperCase      = regexp.MustCompile(`[A-Z]`)
	disallowed     = regexp.MustCompile(`[^a-zA-Z0-9-]+`)
	dashes         = regexp.MustCompile(`-+`)
	validRelease   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	validDNSLabels = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// HelmReleaseName converts any text into a valid name of a Helm release: lower case, at most 53 characters.
// Texts that differ only in replaced characters get different names.
func HelmReleaseName(s string) string {
	name := strings.ReplaceAll(s, "/", "-")
	if upperCase.MatchString(name) || disallowed.MatchString(name) {
		name += "-" + md5Hex(name, 8)
	}
	name = disallowed.ReplaceAllString(strings.ToLower(name), "-")
	name = strings.Trim(dashes.ReplaceAllString(name, "-"), "-")
	if !validRelease.MatchString(name) || !validDNSLabels.MatchString(name) {
		return md5Hex(s, 24)
	}
	return limit(name, releaseLimit)
}

// limit shortens s to at most count characters. A shortened text ends in "-" and five digits of its digest.
func limit(s string, count int) string {
	if len(s) <= count {
		return s
	}
	if count <= 6 {
		return s[:count]
	}
	cut := s[:count-6]
	if strings.HasSuffix(cut, "-") {
		return cut + md5Hex(s, 5)
	}
	return cut + "-" + md5Hex(s, 5)
}

func md5Hex(s string, digits int) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])[:digits]
}
