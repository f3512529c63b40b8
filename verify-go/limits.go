package main

// The limits of every section.

const (
	maxInt       = 1<<53 - 1
	maxDepth     = 32
	maxName      = 128
	maxLine      = 1 << 20
	maxSessions  = 1024
	maxCounts    = 256
	maxOpen      = 65_536
	maxNoteLine  = 1024
	maxQuantity  = 1_000_000_000
	maxKeys      = 64
	maxModels    = 256
	maxSurvivors = 100
	maxReceipt   = 16 << 20
	maxProof     = 4 << 20
	maxMarks     = 1 << 19 // of the bytes , [ and { in a receipt or proof: bounds the values that are held
	maxRows      = 10_000
	maxPrices    = 65_536
	maxSentences = 1024 // of limits, and of findings
	maxSeqs      = 20   // events that a finding lists
)
