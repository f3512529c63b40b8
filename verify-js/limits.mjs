// The limits of every section.

export const MAX_DEPTH = 32;
export const MAX_LINE = 1_048_576;
export const MAX_NOTE_LINE = 1024;
export const MAX_RECEIPT = 16_777_216;
export const MAX_PROOF = 4_194_304;
export const MAX_MARKS = 524_288; // of the bytes , [ and { in a receipt or proof: bounds the values that are held
export const MAX_PRICES = 65_536;
export const MAX_SENTENCES = 1024; // of limits, and of findings
export const MAX_SEQS = 20; // events that a finding lists
export const MAX_COUNTS = 256;
export const MAX_SESSIONS = 1024;
export const MAX_OPEN = 65_536;
export const MAX_KEYS = 64;
export const MAX_PAIRS = 256;
export const MAX_SURVIVORS = 100;
export const MAX_NAMED = 64; // unknown types and withheld names that an answer lists
export const CHUNK = 1 << 17; // bytes of one read: small, since what is read is garbage soon
