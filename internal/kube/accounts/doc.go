// Package accounts mints tokens of service accounts, and tries whether the API server accepts them.
package accounts
