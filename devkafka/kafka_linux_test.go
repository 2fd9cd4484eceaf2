//go:build kafka

package devkafka_test

const endsWithParent = true
