"""The files that agents work on: git work trees and their snapshots, memory and tasks."""
