// Package accounts creates tokens of service accounts, and tests whether the API server accepts them.
package accounts
